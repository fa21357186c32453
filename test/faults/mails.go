package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"

	"sheaf/internal/testkit"
)

// receiveMails listens as a mail server that takes every letter. The channel gets the letters.
func receiveMails(d *demo, address string) <-chan string {
	d.Helper()
	l, err := net.Listen("tcp", address)
	testkit.Must(d, err)
	d.Cleanup(func() { l.Close() })
	letters := make(chan string, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go speakSMTP(conn, letters)
		}
	}()
	return letters
}

func speakSMTP(conn net.Conn, letters chan<- string) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	fmt.Fprint(conn, "220 ready\r\n")
	for lines.Scan() {
		word, _, _ := strings.Cut(strings.ToUpper(lines.Text()), " ")
		switch word {
		case "DATA":
			fmt.Fprint(conn, "354 go on\r\n")
			var letter strings.Builder
			for lines.Scan() && lines.Text() != "." {
				letter.WriteString(lines.Text() + "\n")
			}
			letters <- letter.String()
			fmt.Fprint(conn, "250 taken\r\n")
		case "QUIT":
			fmt.Fprint(conn, "221 bye\r\n")
			return
		default:
			fmt.Fprint(conn, "250 yes\r\n")
		}
	}
}
