package page

import "testing"

// TestOneSignIsNotEnough: short real pages that are called as error pages are, or speak of errors,
// are kept.
func TestOneSignIsNotEnough(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a film":             `<title>Access Denied</title><h1>Access Denied</h1><p>A film by Anna Miller. 1998, 92 minutes.`,
		"a film on a site":   `<title>Access Denied - Film Archive</title><h1>Access Denied</h1><p>In Access Denied a clerk loses his keys.`,
		"a band":             `<title>Error 404 (band)</title><h1>Error 404</h1><p>Error 404 is a rock band from Osaka, founded in 2004.`,
		"a song":             `<title>Not Found</title><h1>Not Found</h1><p>The third song of the album. 3:41.`,
		"a room":             `<title>404</title><p>Room 404: the reading circle meets on Tuesdays.`,
		"a house number":     `<title>404 Main Street</title><p>Two bedrooms, a garden.`,
		"a poem":             `<title>Pardon our interruption</title><p>the rain said to the roof`,
		"a security check":   `<title>Security check</title><p>We check bicycles for free each first Monday.`,
		"a Japanese novel":   `<title>アクセス拒否</title><h1>アクセス拒否</h1><p>山田太郎の第三作。文庫、三百頁。`,
		"a Japanese story":   `<title>ページが見つかりません</title><h1>ページが見つかりません</h1><p>短編。二〇一九年の作。`,
		"a note on a domain": `<title>Memo</title><p>This domain is registered by my brother. I pay for it.`,
		"a list of links":    `<title>Links</title><p>Where I sold mine: <a href=https://www.sedoparking.com/>here</a>.`,
	} {
		if got, why := Judge(look(t, 200, nil, body)); got != None {
			t.Errorf("%s is taken for %s: %s", name, got, why)
		}
	}
	for name, tt := range map[string]struct {
		body string
		want Mark
	}{
		"a heading and a sentence": {`<title>404 Not Found</title><h1>Not Found</h1><p>The requested URL /x was not found on this server.`, Missing},
		"a polite one":             {`<title>Not found - Example</title><p>Sorry, the page you are looking for does not exist.`, Missing},
		"of a page maker":          {`<title>404 | Example</title><body class="error404"><a href=/>Home</a>`, Missing},
		"not for robots":           {`<title>Page not found</title><meta name="robots" content="noindex"><a href=/>Home</a>`, Missing},
		"a firewall":               {`<title>Access Denied</title><h1>Access Denied</h1><p>Your request was blocked by the administrator.`, Blocked},
		"Imperva":                  {`<title>Pardon Our Interruption</title><p>Something about your browser made us think you were a bot.`, Blocked},
		"parked":                   {`<title>example.jp</title><p>This domain is parked.`, Parked},
		"parked elsewhere":         {`<title></title><script src=https://www.sedoparking.com/x.js></script>`, Parked},
	} {
		if got, _ := Judge(look(t, 200, nil, tt.body)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
