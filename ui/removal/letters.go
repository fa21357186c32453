package removal

import (
	"strings"

	"sheaf/internal/mailer"
	"sheaf/internal/webpage"
)

// page returns a page for making texts in the language of a request.
func (d *Desk) page(r *Request) webpage.Page { return webpage.Page{Site: d.opt.Site, Lang: r.Lang} }

// letter makes a mail from paragraphs. It leaves out empty ones.
func letter(to, subject string, paragraphs ...string) mailer.Letter {
	var text strings.Builder
	for _, p := range paragraphs {
		if p != "" {
			text.WriteString(p + "\n\n")
		}
	}
	return mailer.Letter{To: to, Subject: subject, Text: strings.TrimSuffix(text.String(), "\n")}
}

// farewell returns the end of a mail, which names the archive.
func (d *Desk) farewell(p webpage.Page) string {
	end := "-- \n" + p.SiteName()
	if p.Contact != "" {
		end += "\n" + p.Contact
	}
	return end
}

// what describes what a request asks for.
func what(p webpage.Page, r *Request) string {
	switch {
	case r.Wish == Exclude && r.Kind == Domain:
		return p.T("that robots visit no host of the domain %s any more", r.Target)
	case r.Wish == Exclude && r.Kind == Prefix:
		return p.T("that robots visit no page whose address begins with %s any more", r.Target)
	case r.Wish == Exclude:
		return p.T("that robots visit %s no more", r.Target)
	case r.Kind == Domain:
		return p.T("that all hosts of the domain %s are removed from the archive", r.Target)
	case r.Kind == Prefix:
		return p.T("that pages whose address begins with %s are removed from the archive", r.Target)
	}
	return p.T("that the host %s is removed from the archive", r.Target)
}

func (d *Desk) received(r *Request) mailer.Letter {
	p := d.page(r)
	return letter(r.Email, p.T("Your request about %s", r.Target),
		p.T("Somebody, most likely you, asked this archive: %s.", what(p, r)),
		p.T("The page of your request says how to prove that the site is yours, and what becomes of it. Keep its address to yourself:"),
		d.opt.Base+r.path(),
		p.T("If you did not ask, do nothing: the request ends by itself."),
		d.farewell(p))
}

func (d *Desk) codeLetter(r *Request, to, code string) mailer.Letter {
	p := d.page(r)
	return letter(to, p.T("Code for a request about %s", r.Target),
		p.T("%s asked this web archive: %s.", r.Email, what(p, r)),
		p.T("If you agree, give them this code. It is good for 24 hours, and they enter it on the page of their request:"),
		"    "+code,
		p.T("If you do not agree, do nothing."),
		d.farewell(p))
}

func (d *Desk) refusedLetter(r *Request) mailer.Letter {
	p := d.page(r)
	return letter(r.Email, p.T("Your request about %s", r.Target),
		p.T("You asked this archive: %s.", what(p, r)),
		p.T("The request was refused:"), r.Answer, d.opt.Base+r.path(), d.farewell(p))
}

func (d *Desk) grantedLetter(r *Request) mailer.Letter {
	p := d.page(r)
	return letter(r.Email, p.T("Your request about %s", r.Target),
		p.T("You asked this archive: %s.", what(p, r)),
		p.T("The request was granted, and carried out."), r.Answer, d.opt.Base+r.path(), d.farewell(p))
}
