// Package chart draws amounts over time as stacked bars in inline SVG: with an axis, a legend, a
// value for each column on hover and focus, and a table of the same values for people who do not
// see the drawing. Its markup has no style attributes and needs no script, so a strict
// Content-Security-Policy allows it. The colours are the custom properties --s1 to --s6 of the
// page's style sheet.
//
// A chart is made by New and drawn by the template "chart", which Template defines:
//
//	day := chart.Times(page, hours)
//	c := chart.New(page, "Pages", chart.Count, day, chart.Series{Name: "waseda", Values: pages})
package chart
