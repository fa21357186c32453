package page

import (
	"bytes"
	"regexp"
)

// parkingHosts are the hosts, some with a path, that serve parked domains. A page with little text
// that names one of them in a URL is parked, if its title or text hints at that or if it has no
// text.
var parkingHosts = []string{
	"sedoparking.com", "parkingcrew.net", "bodis.com", "parklogic.com", "above.com/marketplace", "dan.com/buy-domain",
	"afternic.com/forsale", "hugedomains.com/domain_profile", "d38psrni17bvxu.cloudfront.net", "domainactive.co",
	"skenzo.com", "rookmedia.net", "voodoo.com/domains", "img1.wsimg.com/parking-lander", "parking.godaddy.com",
	"cashparking.com", "parkweb.co.jp", "parking.value-domain.com", "onamae.com/parking", "parking.muumuu-domain.com",
	"sav.com/domain", "undeveloped.com/buy-domain", "epik.com/parking", "parkpage.foundationapi.com",
}

var (
	parkedTitle = regexp.MustCompile(`(?i)(domain|[a-z0-9-]+\.[a-z]{2,6})( name)? (is|may be|might be) for sale|buy this domain|^\W*parked domain|domain (name )?(has )?expired|domain parking|ドメインパーキング|ドメイン(の|は)?(販売|有効期限|期限切れ|失効)|このドメイン`)
	bareTitle   = regexp.MustCompile(`(?i)^\s*([a-z0-9-]+\.)*[a-z0-9-]+\.[a-z]{2,}\s*$|^\s*$`) // the domain's name, or nothing
	parkedText  = regexp.MustCompile(`(?i)(this|the) domain( name)?[^.]{0,60} (is|may be|might be) for sale|buy this domain|(this|the) domain( name)? (is|has been) (parked|registered (at|by|with)|expired)|domain (name )?(has )?expired|this (web ?)?page is parked|このドメイン(名)?(は|が|を)[^。]{0,40}(販売|売却|譲渡|取得|期限|失効|更新され|登録され|利用されて|使用されて|パーキング)|ドメインパーキング`)
)

func parked(p *Look) string {
	if p.More || len(p.Text) > aPage {
		return ""
	}
	said := mentions(p.Text, "domain") || mentions(p.Text, "ドメイン") || mentions(p.Text, "parked")
	titled := parkedTitle.MatchString(p.Title) || bareTitle.MatchString(p.Title) && len(p.Text) <= fewWords
	if said && titled && parkedText.MatchString(p.Text) {
		return "it says that the domain is for sale or expired"
	}
	if len(p.Text) > aNote || !titled && !said && p.Text != "" {
		return ""
	}
	for _, host := range parkingHosts {
		if loads(p.Body, host) {
			return host
		}
	}
	return ""
}

// loads reports whether the markup names the host in a URL.
func loads(markup []byte, host string) bool {
	for {
		i := bytes.Index(markup, []byte(host))
		if i < 0 {
			return false
		}
		if i > 0 && (markup[i-1] == '/' || markup[i-1] == '.') {
			return true
		}
		markup = markup[i+len(host):]
	}
}
