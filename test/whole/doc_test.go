// Package whole tries ways that lead through the whole service, with robots at its one end and
// consumers at the other:
//
//   - links: a robot collects a site, and a consumer fetches who leads where, by host and edition
//     (paper 000, 3.2.2);
//   - several: robots that share a large host's URLs, and robots whose copies of a host are compared;
//   - takedown: what a robot had brought before a take-down and what it brings afterwards, as readers
//     see it by FTP and HTTP;
//   - watch: a change that somebody waits for (paper 004): a consumer names a page and a form, a robot
//     visits them, and the notice comes while the publish window is shut, with links that work.
//
// They are one package, because linking the service takes longer than most of them.
package whole
