// Package whole tests the whole service, with robots at one end and consumers at the other:
//
//   - links: a robot collects a site, and a consumer fetches the links between pages, by host and
//     edition (paper 000, 3.2.2);
//   - several: robots share a large host's URLs, and robots have copies of a host, which are
//     compared;
//   - takedown: what readers see by FTP and HTTP of records that a robot brought before and after a
//     take-down;
//   - watch: a consumer names a page and a form (paper 004), a robot visits them, and the notice of
//     a change comes while the publish window is shut, with links that work.
//
// They are one package, because linking the service takes longer than most of them.
package whole
