package crawl

import (
	"fmt"
	"testing"

	"sheaf/robotd/batch"
	"sheaf/robotd/frontier"
)

// A page of links to invented names makes the robot report a hundred of them. The links that are
// left out are counted.
func TestHostsOfOnePage(t *testing.T) {
	page := &links{crawl: new(Crawl), host: &Host{Name: "a.test"}}
	for n := range 20_000 {
		page.follow(fmt.Sprintf("http://invented%d.test/", n), frontier.Entry{})
	}
	page.follow("http://invented7.test/page", frontier.Entry{}) // of a host that is among them
	if len(page.found) != 101 {
		t.Errorf("%d links are reported, want 101", len(page.found))
	}
	if len(page.cuts) != 1 || page.cuts[0].Kind != batch.KindCut || page.cuts[0].Reason != "page_hosts" || page.cuts[0].N != 19_900 {
		t.Errorf("left out are %+v, want 19,900 links for page_hosts", page.cuts)
	}
}
