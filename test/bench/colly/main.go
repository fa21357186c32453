// Command colly crawls what a list of seeds leads to with the colly library, keeping nothing: a
// peer to measure the robot against. It is a module of its own, so that no peer is in the product.
//
//	colly SEEDS    a file with one URL on a line
package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/gocolly/colly/v2"
)

// atOnce is how many fetches run at once, as in the other crawls.
const atOnce = 100

func main() {
	if err := crawl(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "colly:", err)
		os.Exit(1)
	}
}

func crawl(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: colly SEEDS")
	}
	list, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	seeds := strings.Fields(string(list))
	var hosts []string
	for _, seed := range seeds {
		u, err := url.Parse(seed)
		if err != nil {
			return err
		}
		hosts = append(hosts, u.Hostname())
	}
	c := colly.NewCollector(colly.Async(true), colly.AllowedDomains(hosts...))
	c.IgnoreRobotsTxt = false
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: atOnce}); err != nil {
		return err
	}
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		_ = e.Request.Visit(e.Attr("href")) // what was visited, or leads outside, is refused
	})
	for _, seed := range seeds {
		_ = c.Visit(seed) // a page may have led there meanwhile
	}
	c.Wait()
	return nil
}
