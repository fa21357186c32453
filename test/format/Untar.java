import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.zip.GZIPInputStream;

/**
 * Lists a tar.gz by means of java.util.zip alone: name, size, time, SHA-256, URL and media type of each
 * file, with tabs between. With "silent" after the file's name the stream never says how much is
 * available, as a network's may.
 */
class Untar {
    public static void main(String[] args) throws Exception {
        InputStream file = new BufferedInputStream(new FileInputStream(args[0]), 1 << 16);
        if (args.length > 1 && args[1].equals("silent")) {
            file = new FilterInputStream(file) {
                @Override
                public int available() {
                    return 0;
                }
            };
        }
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        try (DataInputStream in = new DataInputStream(new GZIPInputStream(file, 1 << 15))) {
            walk(in, out);
            if (in.read() >= 0) {
                throw new IOException("bytes after the tar's end");
            }
        }
        out.flush();
    }

    static void walk(DataInputStream in, PrintStream out) throws Exception {
        Map<String, String> pax = new HashMap<>();
        byte[] block = new byte[512];
        for (int zeros = 0; zeros < 2;) {
            in.readFully(block);
            if (isZero(block)) {
                zeros++;
                continue;
            }
            if (zeros > 0) {
                throw new IOException("a header after a block of zeros");
            }
            checkSum(block);
            long size = octal(block, 124, 12);
            if (block[156] == 'x') {
                byte[] data = new byte[(int) size];
                in.readFully(data);
                in.skipNBytes(-size & 511);
                readPax(data, pax);
                continue;
            }
            if (block[156] != '0') {
                throw new IOException("entry of type " + (char) block[156]);
            }
            String name = pax.getOrDefault("path", text(block, 0, 100));
            String sum = digest(in, size);
            in.skipNBytes(-size & 511);
            out.print(name + "\t" + size + "\t" + octal(block, 136, 12) + "\t" + sum + "\t"
                    + pax.getOrDefault("SCHILY.xattr.user.xdg.origin.url", "") + "\t"
                    + pax.getOrDefault("SCHILY.xattr.user.mime_type", "") + "\n");
            pax.clear();
        }
    }

    static String digest(DataInputStream in, long size) throws Exception {
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        byte[] buffer = new byte[1 << 16];
        while (size > 0) {
            int n = in.read(buffer, 0, (int) Math.min(buffer.length, size));
            if (n < 0) {
                throw new EOFException("within a file");
            }
            sha.update(buffer, 0, n);
            size -= n;
        }
        return HexFormat.of().formatHex(sha.digest());
    }

    static void readPax(byte[] data, Map<String, String> pax) throws IOException {
        for (int at = 0; at < data.length;) {
            int space = at;
            while (data[space] != ' ') {
                space++;
            }
            int length = Integer.parseInt(new String(data, at, space - at, StandardCharsets.US_ASCII));
            String record = new String(data, space + 1, at + length - space - 2, StandardCharsets.UTF_8);
            pax.put(record.substring(0, record.indexOf('=')), record.substring(record.indexOf('=') + 1));
            at += length;
        }
    }

    static boolean isZero(byte[] block) {
        for (byte b : block) {
            if (b != 0) {
                return false;
            }
        }
        return true;
    }

    static void checkSum(byte[] block) throws IOException {
        long sum = 0;
        for (int i = 0; i < block.length; i++) {
            sum += i >= 148 && i < 156 ? ' ' : block[i] & 255;
        }
        if (sum != octal(block, 148, 8)) {
            throw new IOException("wrong checksum of a tar header");
        }
    }

    static long octal(byte[] block, int at, int length) {
        return Long.parseLong(text(block, at, length).trim(), 8);
    }

    static String text(byte[] block, int at, int length) {
        int end = at;
        while (end < at + length && block[end] != 0) {
            end++;
        }
        return new String(block, at, end - at, StandardCharsets.UTF_8);
    }
}
