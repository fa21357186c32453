// Package mailtest is a mail server on loopback for tests. It keeps what it gets, and answers as a
// test says.
package mailtest

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mime"
	"mime/quotedprintable"

	"sheaf/internal/mailer"
	"sheaf/internal/testkit"
)

// Silence, as an answer, makes the server send nothing.
const Silence = "silence"

// Server is a mail server. Its mailer.Server leads to it.
type Server struct {
	*mailer.Server

	mu      sync.Mutex // guards all below
	answer  func(verb, line string) string
	letters []string
	lines   []string
}

// New starts a server that accepts everything, until the test ends.
func New(t testing.TB) *Server { return At(t, "127.0.0.1:0") }

// At is New at an address.
func At(t testing.TB, address string) *Server {
	l, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	s := &Server{Server: &mailer.Server{Address: l.Addr().String(), From: "archive@example.jp", TLS: mailer.NoTLS, Patience: 10 * time.Second}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

// Set has the server answer as the function says: to "greeting", to each command by its first word,
// and to "message", a letter's end. "" is the usual answer.
func (s *Server) Set(answer func(verb, line string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Letters returns the letters that came, as they were sent.
func (s *Server) Letters() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.letters)
}

// Lines returns the commands that came.
func (s *Server) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// Letter is a mail of plain text as its reader sees it.
type Letter struct {
	mail.Header
	Subject, Text string
}

// To returns the letters to an address.
func (s *Server) To(t testing.TB, address string) (list []Letter) {
	t.Helper()
	for _, text := range s.Letters() {
		m, err := mail.ReadMessage(strings.NewReader(text))
		testkit.Must(t, err)
		to, err := m.Header.AddressList("To")
		testkit.Must(t, err)
		if to[0].Address != address {
			continue
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
		testkit.Must(t, err)
		body := m.Body
		if strings.EqualFold(m.Header.Get("Content-Transfer-Encoding"), "quoted-printable") {
			body = quotedprintable.NewReader(m.Body)
		}
		plain, err := io.ReadAll(body)
		testkit.Must(t, err)
		list = append(list, Letter{m.Header, subject, strings.ReplaceAll(string(plain), "\r\n", "\n")})
	}
	return list
}

// say answers a command, and returns the answer.
func (s *Server) say(conn net.Conn, verb, line string) (text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = cmp.Or(map[string]string{"greeting": "220 mail", "DATA": "354 go on"}[verb], "250 fine")
	if s.answer != nil {
		if other := s.answer(verb, line); other != "" {
			text = other
		}
	}
	if text != Silence {
		fmt.Fprintf(conn, "%s\r\n", text)
	}
	return text
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	s.say(conn, "greeting", "")
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		s.mu.Lock()
		s.lines = append(s.lines, line)
		s.mu.Unlock()
		if said := s.say(conn, verb, line); verb != "DATA" || !strings.HasPrefix(said, "354") {
			continue
		}
		var letter strings.Builder
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if line == ".\r\n" {
				break
			}
			letter.WriteString(line)
		}
		s.mu.Lock()
		s.letters = append(s.letters, letter.String())
		s.mu.Unlock()
		s.say(conn, "message", "")
	}
}
