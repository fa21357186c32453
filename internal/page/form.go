package page

import (
	"strings"

	"golang.org/x/net/html/atom"

	"sheaf/internal/weburl"
)

// form is a GET form with what it sends if nobody changes anything.
type form struct {
	action string
	fields [][2]string
	choice string // name of the select that is being read
	place  int    // index of the select's value in fields; -1: none yet
}

// maxFields is how many fields a form may have. A form with more is left out.
const maxFields = 50

func (c *collector) beginForm(attrs attributes) {
	if method := strings.TrimSpace(attrs.get("method")); method == "" || strings.EqualFold(method, "get") {
		c.form = &form{action: strings.TrimSpace(attrs.get("action"))}
	}
}

// input adds the value that an untouched input sends.
func (c *collector) input(attrs attributes) {
	name, value := attrs.get("name"), attrs.get("value")
	if c.form == nil || name == "" {
		return
	}
	switch strings.ToLower(attrs.get("type")) {
	case "submit", "image", "button", "reset", "file", "password":
		return
	case "checkbox", "radio":
		if _, checked := attrs.lookup("checked"); !checked {
			return
		}
		if _, given := attrs.lookup("value"); !given {
			value = "on"
		}
	}
	c.form.fields = append(c.form.fields, [2]string{name, value})
}

// choice adds the value of a select: its selected option, or its first one.
func (c *collector) choice(tag atom.Atom, attrs attributes) {
	f := c.form
	if f == nil {
		return
	}
	if tag == atom.Select {
		f.choice, f.place = attrs.get("name"), -1
		return
	}
	value, given := attrs.lookup("value") // without a value the browser sends the option's text, which is not supported
	if f.choice == "" || !given {
		return
	}
	_, selected := attrs.lookup("selected")
	switch {
	case f.place < 0:
		f.place = len(f.fields)
		f.fields = append(f.fields, [2]string{f.choice, value})
	case selected:
		f.fields[f.place][1] = value
	}
}

// endForm adds the form as a link with the Tag "form".
func (c *collector) endForm() {
	f := c.form
	c.form = nil
	if f == nil {
		return
	}
	if len(f.fields) > maxFields {
		c.cut(CutFields)
		return
	}
	before, _, _ := strings.Cut(f.action, "#")
	before, _, _ = strings.Cut(before, "?") // the fields replace the action's own query
	var query strings.Builder
	for i, field := range f.fields {
		if i > 0 {
			query.WriteByte('&')
		}
		query.WriteString(weburl.FormEscape(field[0], c.enc) + "=" + weburl.FormEscape(field[1], c.enc))
	}
	c.add(before+"?"+query.String(), Link{Tag: "form", Text: true})
}
