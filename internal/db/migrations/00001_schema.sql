-- The schema of the first release, room by room. Times are Unix milliseconds unless a comment says
-- otherwise; digests and keys are blobs; truth values are 0 and 1.

-- +goose Up

-- Leases (internal/lease): who may do what only one may do at a time.

-- The highest token of each name so far.
CREATE TABLE leases (
    name  TEXT PRIMARY KEY,
    token INTEGER NOT NULL
) STRICT;

-- Who has or wants a name, the first by token being the holder. A beat that stands still is that of
-- one who is gone.
CREATE TABLE lease_queue (
    name   TEXT NOT NULL,
    token  INTEGER NOT NULL,
    holder TEXT NOT NULL,
    beat   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;

-- Keys that all processes of the service share.

-- One row: the public half of the key that signs receipts. Robots learnt it when they joined, so a
-- process with another key would sign in vain.
CREATE TABLE service_key (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    public BLOB NOT NULL
) STRICT;

-- The keys that the service has signed with, and the next one.
CREATE TABLE service_keys (
    number    INTEGER PRIMARY KEY,
    public    BLOB NOT NULL UNIQUE,
    made      INTEGER NOT NULL,
    used      INTEGER NOT NULL DEFAULT 0, -- since when it signs, or signed; 0: not yet
    signature BLOB,                       -- of the statement that it comes next, by the key before; NULL: there is none
    proof     BLOB                        -- that it signs, by itself; NULL: not yet
) STRICT;

-- Keys of processes without a shared directory, each sealed by database.seal of the settings.
CREATE TABLE sealed_keys (
    name   TEXT NOT NULL PRIMARY KEY, -- of the file in the data directory
    sealed BLOB NOT NULL              -- nonce and AES-256-GCM of its bytes, with the name as additional data
) STRICT;

-- Certificates by ACME.
CREATE TABLE acme (
    name  TEXT    NOT NULL PRIMARY KEY, -- what it is, and of which authority and names
    value TEXT    NOT NULL,             -- keys and certificates in PEM, answers to challenges, the number of failures
    at_ms INTEGER NOT NULL              -- of an attempt: when the next may begin; of others: when they were written
) STRICT;

-- The manager: robots, hosts, who collects which host, and what it costs.

CREATE TABLE robots (
    name               TEXT PRIMARY KEY,
    created            INTEGER NOT NULL,
    token_hash         BLOB UNIQUE,                -- SHA-256 of the one-time token; NULL once it is used
    token_expires      INTEGER NOT NULL DEFAULT 0,
    secret_hash        BLOB,                       -- SHA-256 of the 256-bit random secret; NULL: has not joined, or revoked
    public_key         BLOB,                       -- Ed25519
    version            TEXT    NOT NULL DEFAULT '',
    joined             INTEGER NOT NULL DEFAULT 0,
    seen               INTEGER NOT NULL DEFAULT 0, -- last authenticated request, to the minute
    revoked            INTEGER NOT NULL DEFAULT 0,
    subscribed         INTEGER NOT NULL DEFAULT 0, -- P5: 1 while it takes part
    shares             INTEGER NOT NULL DEFAULT 0, -- 1: its program works by shares, as its last request of the list said
    list_generation    INTEGER NOT NULL DEFAULT 0, -- the last generation that changed this robot's list
    restart_generation INTEGER NOT NULL DEFAULT 0, -- P4: a list older than this is to be dropped
    restart_answered   INTEGER NOT NULL DEFAULT 0, -- the restart_generation that was last answered with RESTART
    given              INTEGER NOT NULL DEFAULT 0, -- the newest generation whose list was sent to it
    leased             INTEGER NOT NULL DEFAULT 0, -- until when it may visit its hosts; 0: it was sent no list
    dead               TEXT    NOT NULL DEFAULT '', -- why an operator has said that it visits nothing; '': no operator has
    lapsed             INTEGER NOT NULL DEFAULT 0, -- when it had been silent for too long and its hosts were handed on; 0: it is heard of
    paused             INTEGER NOT NULL DEFAULT 0, -- 1: by the operator
    stolen             INTEGER NOT NULL DEFAULT 0, -- since when its key may be in others' hands, because of which it was revoked, and nobody gets its name; 0: it was not
    ahead              INTEGER NOT NULL DEFAULT 0, -- ms by which its clock is ahead of the service's, as its last heartbeat says; 0: it is not
    refused            TEXT    NOT NULL DEFAULT '', -- the bound at which it was last turned away, in words; '': at none
    refused_since      INTEGER NOT NULL DEFAULT 0, -- since when it has been, again and again
    refused_at         INTEGER NOT NULL DEFAULT 0, -- when it last was, to the minute
    look               INTEGER NOT NULL DEFAULT 0, -- when it was told to look for a release; 0: it has looked since
    slow               REAL    NOT NULL DEFAULT 1, -- its line: ms for what takes 1 ms at the middle robot
    signing            TEXT    NOT NULL DEFAULT '', -- by which keys its requests are signed, and were lately: JSON of package botauth's proofs; '': they are not
    service_key        BLOB                        -- public half of the service's newest key that the robot knows; NULL: has not joined
) STRICT;

-- Whom to tell of a robot, and the link to its page.
CREATE TABLE robot_sites (
    robot   TEXT PRIMARY KEY,
    contact TEXT NOT NULL DEFAULT '', -- URL or mail address of the people at its site, as the robot says
    link    TEXT NOT NULL             -- random; the link to its page is signed with it
) STRICT;

-- From which addresses robots came while they visited hosts, for owners of sites who ask.
CREATE TABLE robot_addresses (
    robot   TEXT    NOT NULL,
    address TEXT    NOT NULL,
    began   INTEGER NOT NULL,
    last    INTEGER NOT NULL, -- heartbeat of which it is known
    visits  INTEGER NOT NULL, -- 1: by that heartbeat the robot went on
    PRIMARY KEY (robot, address, began)
) STRICT, WITHOUT ROWID;
CREATE INDEX robot_addresses_by_address ON robot_addresses (address, began, last);

-- What keeps a robot from its work.
CREATE TABLE robot_troubles (
    robot  TEXT NOT NULL,
    kind   TEXT NOT NULL,              -- silent, batch, disk or upload
    detail TEXT NOT NULL,
    since  INTEGER NOT NULL,
    told   INTEGER NOT NULL DEFAULT 0, -- when its site was told
    ended  INTEGER NOT NULL DEFAULT 0, -- 0: it lasts
    PRIMARY KEY (robot, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE hosts (
    name            TEXT PRIMARY KEY,            -- authority without default port, lower case
    state           TEXT NOT NULL CHECK (state IN ('accepted', 'pending', 'refused')),
    source          TEXT NOT NULL,               -- the robot that found it; '' is the operator
    created         INTEGER NOT NULL,
    addresses       TEXT    NOT NULL DEFAULT '', -- sorted, separated by spaces
    resolved        INTEGER NOT NULL DEFAULT 0,  -- when addresses were last asked for
    grp             TEXT    NOT NULL,            -- hosts of one group go to one robot: an address, or the host's own name
    domain          TEXT    NOT NULL DEFAULT '', -- registered domain; the hosts of one that robots found are capped
    waiting         INTEGER NOT NULL DEFAULT 0,  -- 1: accepted, and no robot has it
    weight          REAL,                        -- ms that its pages take at the middle robot; NULL: not measured
    gap             REAL,                        -- ms between the end of a request and the next at the host's address, where it is longer than usual; NULL: it is not
    copies          INTEGER NOT NULL DEFAULT 1,  -- how many robots are to collect the whole host, to compare the copies
    parts           INTEGER NOT NULL DEFAULT 1,  -- how many robots are to share its URLs, by their hash
    parts_by        TEXT    NOT NULL DEFAULT '', -- who wanted that: 'plan', 'operator'
    review          INTEGER NOT NULL DEFAULT 0,  -- 1: its further robots may not be as they should
    interval_ms     INTEGER NOT NULL DEFAULT 0,  -- between two visits to the host's address, as an operator has set it; 0: each robot's own
    shortest_ms     INTEGER NOT NULL DEFAULT 0,  -- how short the interval may get while the host answers quickly; 0: as each robot's settings say
    run_pages       INTEGER NOT NULL DEFAULT 0,  -- pages of a run over one connection; 0: as each robot's settings say
    interval_reason TEXT    NOT NULL DEFAULT '', -- who allows or asks for these
    pinned          TEXT    NOT NULL DEFAULT '', -- the robot that an operator wants to collect it, with all of its group; '': whichever
    pin_reason      TEXT    NOT NULL DEFAULT ''  -- why
) STRICT;
CREATE INDEX hosts_by_group ON hosts (grp);
-- How many hosts robots have found in a day.
CREATE INDEX hosts_by_created ON hosts (created, source) WHERE source <> '';
CREATE INDEX hosts_by_state ON hosts (state, name);
-- All that the counts of domains and the search for a part of a name read.
CREATE INDEX hosts_by_domain ON hosts (domain, state, source, name);
CREATE INDEX hosts_waiting ON hosts (grp, name) WHERE waiting = 1;
CREATE INDEX hosts_several ON hosts (name) WHERE copies > 1 OR parts > 1;
CREATE INDEX hosts_set ON hosts (name) WHERE interval_ms > 0 OR shortest_ms > 0 OR run_pages > 0;
CREATE INDEX hosts_pinned ON hosts (grp, pinned) WHERE pinned <> '';
-- With state first, SQLite chooses these without statistics; else it reads every accepted host.
CREATE INDEX hosts_by_resolved ON hosts (state, resolved);
CREATE INDEX hosts_review ON hosts (state, waiting, name) WHERE review = 1;

CREATE TABLE seeds (
    host    TEXT NOT NULL REFERENCES hosts (name) ON DELETE CASCADE,
    url     TEXT NOT NULL,
    referer TEXT NOT NULL DEFAULT '',
    depth   INTEGER NOT NULL DEFAULT 0, -- links that lead from a start URL of the host to this one; robots follow them to a bounded depth
    PRIMARY KEY (host, url)
) STRICT, WITHOUT ROWID;

-- Domains of which no host is collected, except those that an operator adds.
CREATE TABLE refused_domains (
    domain  TEXT PRIMARY KEY,
    created INTEGER NOT NULL,
    by_whom TEXT NOT NULL,
    reason  TEXT NOT NULL
) STRICT;

-- Parts of hosts that robots leave out, because their owners want that.
CREATE TABLE refused_prefixes (
    host    TEXT    NOT NULL, -- whether it is collected or not
    path    TEXT    NOT NULL, -- path and query with which the URLs begin
    created INTEGER NOT NULL,
    by_whom TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    PRIMARY KEY (host, path)
) STRICT;

-- Hosts that an operator wants visited now, until their robot has noted it.
CREATE TABLE visit_orders (
    host    TEXT NOT NULL,
    robot   TEXT NOT NULL,    -- '': whichever has the host
    ordered INTEGER NOT NULL, -- when
    PRIMARY KEY (host, robot)
) STRICT, WITHOUT ROWID;

-- One row: the number of the latest generation.
CREATE TABLE generation (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL
) STRICT;
INSERT INTO generation (id, number) VALUES (1, 0);

-- Which robot had which host from one generation until before another. Rows are never deleted: a
-- late batch is judged by when its robot had stopped visiting the host.
CREATE TABLE assignments (
    host            TEXT NOT NULL,
    robot           TEXT NOT NULL,
    from_generation INTEGER NOT NULL,
    to_generation   INTEGER,                    -- NULL: has it now
    slot            INTEGER NOT NULL DEFAULT 0, -- 0: the robot that has the host with all of its address; else a further one
    ended           INTEGER NOT NULL DEFAULT 0, -- when the robot had surely stopped visiting the host, by its own clock; 0: it has not
    PRIMARY KEY (host, robot, from_generation)
) STRICT, WITHOUT ROWID;
-- The robots' hosts are counted and listed from this index alone. Without its condition's column
-- SQLite reads the row of each assignment, too, although the condition says what it has.
CREATE INDEX assignments_now ON assignments (robot, host, to_generation) WHERE to_generation IS NULL;

-- Hosts that a robot has lost, or has another share of, and may still visit as before. Meanwhile no
-- other robot may begin at the host, or at another host of its group.
CREATE TABLE holds (
    host       TEXT NOT NULL,
    grp        TEXT NOT NULL,              -- the host's group when the robot lost it
    robot      TEXT NOT NULL,              -- with '!' after its name: its credentials were revoked
    since      INTEGER NOT NULL,           -- generation that had given the host to the robot
    generation INTEGER NOT NULL,           -- that has changed this: a robot with a list of it, or a later one, has stopped
    until      INTEGER NOT NULL DEFAULT 0, -- end of the robot's lease
    PRIMARY KEY (host, robot, grp)
) STRICT, WITHOUT ROWID;
CREATE INDEX holds_by_robot ON holds (robot, generation);
CREATE INDEX holds_by_until ON holds (until);
CREATE INDEX holds_by_group ON holds (grp); -- after a plan there may be hundreds of thousands of holds

-- What robots hand over of hosts that go to other robots.
CREATE TABLE handovers (
    host   TEXT PRIMARY KEY REFERENCES hosts (name) ON DELETE CASCADE,
    robot  TEXT NOT NULL,    -- that has made it
    made   INTEGER NOT NULL, -- when it arrived
    head   TEXT NOT NULL,    -- JSON
    sha256 TEXT NOT NULL     -- of host and body, hexadecimal: its name
) STRICT;
CREATE INDEX handovers_by_made ON handovers (made);
CREATE INDEX handovers_by_sha256 ON handovers (sha256);

-- The bodies of hand-overs, in parts, so that nobody needs one whole in memory.
CREATE TABLE handover_parts (
    id   TEXT NOT NULL,    -- name of the hand-over: handovers.sha256
    n    INTEGER NOT NULL, -- from 0; a part has 1 MiB, the last one what is left
    made INTEGER NOT NULL, -- when it arrived
    body BLOB NOT NULL,
    PRIMARY KEY (id, n)
) STRICT;
CREATE INDEX handover_parts_by_made ON handover_parts (made);

CREATE TABLE logs (
    robot    TEXT NOT NULL,
    name     TEXT NOT NULL,
    sha256   BLOB NOT NULL,    -- of the file as it was sent
    bytes    INTEGER NOT NULL,
    lines    INTEGER NOT NULL,
    received INTEGER NOT NULL,
    PRIMARY KEY (robot, name)
) STRICT;

CREATE TABLE costs (
    robot    TEXT NOT NULL,
    host     TEXT NOT NULL,
    requests INTEGER NOT NULL,
    bytes    INTEGER NOT NULL, -- of the answers
    ms       INTEGER NOT NULL,
    updated  INTEGER NOT NULL,
    samples  BLOB,             -- the latest hours in which the host was visited; see manager/levelling
    PRIMARY KEY (robot, host)
) STRICT, WITHOUT ROWID;
CREATE INDEX costs_by_host ON costs (host);

-- A robot's rates by the hour of the week, 0 is Monday 00:00 in the service's zone.
CREATE TABLE rates (
    robot    TEXT NOT NULL,
    hour     INTEGER NOT NULL CHECK (hour BETWEEN 0 AND 167),
    requests INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    ms       INTEGER NOT NULL,
    PRIMARY KEY (robot, hour)
) STRICT, WITHOUT ROWID;

-- Distances that robots have been asked to measure.
CREATE TABLE probes (
    robot TEXT NOT NULL,
    host  TEXT NOT NULL,
    asked INTEGER NOT NULL,
    done  INTEGER NOT NULL DEFAULT 0, -- 0: waits for the robot
    bytes INTEGER NOT NULL DEFAULT 0,
    ms    INTEGER NOT NULL DEFAULT 0,
    fault TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (robot, host)
) STRICT, WITHOUT ROWID;
CREATE INDEX probes_waiting ON probes (robot, asked) WHERE done = 0;

-- The last heartbeat of each robot.
CREATE TABLE heartbeats (
    robot      TEXT PRIMARY KEY,
    at         INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    phase      TEXT NOT NULL,
    cycle      INTEGER NOT NULL,
    left_urls  INTEGER NOT NULL,            -- known and not collected
    pages      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    ms         INTEGER NOT NULL,
    spool      INTEGER NOT NULL,
    rate       REAL    NOT NULL,            -- pages a second while it collects, smoothed; 0: not known
    crowded    INTEGER NOT NULL DEFAULT 0,  -- addresses that wait although their interval has passed
    every      INTEGER NOT NULL DEFAULT 0,  -- ms between two heartbeats; 0: not known
    links      INTEGER NOT NULL DEFAULT 0,  -- found in the pages
    worked     INTEGER NOT NULL DEFAULT 0,  -- ms of its cycle in which the robot collected
    transfers  REAL    NOT NULL DEFAULT 0,  -- highest mean so far of transfers at once
    flow       REAL    NOT NULL DEFAULT 0,  -- highest mean so far of bytes a second
    week       TEXT    NOT NULL DEFAULT ''  -- 168 characters, from Monday 00:00 on: o the window was open, s it was shut, ? not known; '': nothing is known
) STRICT;

-- The hosts that a robot has begun in its cycle.
CREATE TABLE progress (
    robot     TEXT NOT NULL,
    host      TEXT NOT NULL,
    cycle     INTEGER NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('begun', 'done')),
    pages     INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,
    ms        INTEGER NOT NULL,
    left_urls INTEGER NOT NULL DEFAULT 0, -- known and not collected
    began     INTEGER NOT NULL DEFAULT 0, -- in the robot's ms of collecting
    ended     INTEGER NOT NULL DEFAULT 0, -- likewise; 0: it has not
    PRIMARY KEY (robot, host)
) STRICT, WITHOUT ROWID;

-- What robots did by the hour and by the day of the service's zone.
CREATE TABLE robot_series (
    robot TEXT NOT NULL,
    span  TEXT NOT NULL,    -- hour or day
    begin INTEGER NOT NULL,
    pages INTEGER NOT NULL, -- collected
    links INTEGER NOT NULL, -- found in them
    load  INTEGER NOT NULL, -- URLs known and not collected, added up over the heartbeats
    beats INTEGER NOT NULL, -- heartbeats
    PRIMARY KEY (robot, span, begin)
) STRICT, WITHOUT ROWID;

-- What robots have told of their last visits to hosts.
CREATE TABLE visits (
    host   TEXT NOT NULL,
    robot  TEXT NOT NULL,
    at     INTEGER NOT NULL, -- of the last visit, by the service's clock
    status INTEGER NOT NULL, -- of its answer; 0: there was none, or it is not known
    pages  INTEGER NOT NULL, -- of the last cycle in which the robot has ended with the host
    bytes  INTEGER NOT NULL, -- likewise
    why    TEXT NOT NULL,    -- the last visit got no answer; '': it got one
    PRIMARY KEY (host, robot)
) STRICT, WITHOUT ROWID;
CREATE INDEX visits_unanswered ON visits (robot) WHERE why <> '';

-- What binds a robot, as its nights have shown, and when it is to end by the last plan.
CREATE TABLE paces (
    robot       TEXT PRIMARY KEY,
    gap         REAL    NOT NULL,           -- ms between two requests at an address
    width       REAL    NOT NULL,           -- transfers at once: the robot's limit if width_binds is 1, else the most that was seen
    line        REAL    NOT NULL,           -- bytes a second, likewise
    width_binds INTEGER NOT NULL,           -- 1: a night was bound by it
    line_binds  INTEGER NOT NULL,
    drift       REAL    NOT NULL DEFAULT 0, -- by which its nights differ from what the model makes of its own work; 0: not known
    predicted   REAL    NOT NULL DEFAULT 0, -- ms of collecting; 0: not planned
    binds       TEXT    NOT NULL DEFAULT '', -- what keeps it from ending sooner
    host        TEXT    NOT NULL DEFAULT ''  -- of its longest chain
) STRICT;

-- The last cycles of each robot: when they ended, by the plan and in fact.
CREATE TABLE nights (
    robot     TEXT NOT NULL,
    cycle     INTEGER NOT NULL,
    began     INTEGER NOT NULL, -- Unix ms
    ended     INTEGER NOT NULL, -- Unix ms; 0: it has not
    worked    INTEGER NOT NULL, -- ms of collecting
    predicted REAL NOT NULL,    -- ms of collecting; 0: it was not predicted
    binds     TEXT NOT NULL,    -- by the prediction
    PRIMARY KEY (robot, cycle)
) STRICT, WITHOUT ROWID;

-- One row: the plan that the assignment was last made from, and how far the next one is.
CREATE TABLE plans (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    made       INTEGER NOT NULL,            -- 0: never
    typical    REAL    NOT NULL,            -- weight of a host that nobody has measured
    makespan   REAL    NOT NULL,            -- ms
    bound      REAL    NOT NULL,            -- ms; no plan ends before it
    moved      INTEGER NOT NULL,
    explain    TEXT    NOT NULL,
    token      INTEGER NOT NULL DEFAULT 0,  -- the highest that a planner has shown: lower ones are refused
    generation INTEGER NOT NULL DEFAULT 0,  -- of the assignment that the plan was made from
    step       TEXT    NOT NULL DEFAULT '', -- what the planner does now; '': no plan is being made
    began      INTEGER NOT NULL DEFAULT 0,  -- when the plan was begun
    beat       INTEGER NOT NULL DEFAULT 0,  -- when the planner has last said that it is at work
    cancelled  INTEGER NOT NULL DEFAULT 0,  -- token of the planner that is to stop
    given_up   INTEGER NOT NULL DEFAULT 0,  -- when the last attempt was given up; 0: it was not
    reason     TEXT    NOT NULL DEFAULT ''  -- why
) STRICT;
INSERT INTO plans (id, made, typical, makespan, bound, moved, explain) VALUES (1, 0, 1, 0, 0, 0, '');

-- What robots have passed on to others lately, for operators.
CREATE TABLE levellings (
    made   INTEGER NOT NULL,
    robot  TEXT NOT NULL,
    passed TEXT NOT NULL, -- JSON, see manager/levelling
    PRIMARY KEY (made, robot)
) STRICT;

-- What several robots brought of hosts that are given to each of them whole (hosts.copies). Ingest
-- writes it as it takes a batch, for such hosts only; the manager judges by it, and forgets what is
-- old.
CREATE TABLE copies (
    host   TEXT NOT NULL,
    url    TEXT NOT NULL,
    robot  TEXT NOT NULL,
    at     INTEGER NOT NULL, -- of the visit
    digest TEXT NOT NULL,    -- of the payload
    added  INTEGER NOT NULL,
    PRIMARY KEY (host, url, robot, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX copies_added ON copies (host, added);

-- What came of comparing each robot's pages with its peers'.
CREATE TABLE copy_verdicts (
    host      TEXT NOT NULL,
    robot     TEXT NOT NULL,
    judged    INTEGER NOT NULL,
    compared  INTEGER NOT NULL,         -- pages
    differing INTEGER NOT NULL,         -- of those, in a way that time does not explain
    odd       INTEGER NOT NULL,         -- 1: too many
    example   TEXT NOT NULL DEFAULT '', -- a URL that differs
    PRIMARY KEY (host, robot)
) STRICT, WITHOUT ROWID;

-- Releases of the robot's program and how far each is rolled out. The programs lie in files.
CREATE TABLE releases (
    counter   INTEGER PRIMARY KEY,
    text      BLOB NOT NULL,             -- as it was signed
    signature BLOB NOT NULL,             -- minisign's
    published INTEGER NOT NULL,
    percent   INTEGER NOT NULL,          -- of the robots that are offered it: 1, 10, 100
    since     INTEGER NOT NULL,          -- when percent became what it is
    soak      INTEGER NOT NULL,          -- milliseconds that a stage lasts at least
    stopped   TEXT NOT NULL DEFAULT ''   -- why it is offered to nobody any more
) STRICT;

-- At most one row: the key that releases are signed with.
CREATE TABLE release_key (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    key TEXT NOT NULL
) STRICT;

-- What each robot last said of its program.
CREATE TABLE release_reports (
    robot    TEXT PRIMARY KEY,
    counter  INTEGER NOT NULL, -- at work
    seen     INTEGER NOT NULL, -- the highest verified
    platform TEXT NOT NULL,
    reported INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE release_failures (
    robot   TEXT NOT NULL,
    counter INTEGER NOT NULL,
    why     TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (robot, counter)
) STRICT, WITHOUT ROWID;

-- Ingest.

-- One row for each batch that was ever accepted, and for each newcomer that was refused and kept.
-- Rows are never deleted: they are what a repeated upload is judged by.
CREATE TABLE ingest_batches (
    id          TEXT PRIMARY KEY,            -- the batch ID; of a refused newcomer "<batch ID>+<12 digits of its manifest's digest>"
    batch       TEXT NOT NULL,
    robot       TEXT NOT NULL,
    protocol    TEXT NOT NULL,               -- 'http', 'ftp', or '' where a restart found the batch
    inferred    INTEGER NOT NULL DEFAULT 0,  -- 1: it came by FTP without a manifest, and the service wrote that itself
    sha256      TEXT NOT NULL,               -- of the batch file, as the manifest has it
    size        INTEGER NOT NULL,
    hosts       INTEGER NOT NULL,
    express     INTEGER NOT NULL DEFAULT 0,  -- 1: it holds a change that somebody waits for, and may be published outside the window
    incoming    TEXT NOT NULL DEFAULT '',    -- name of its objects in the object store; '': its files are in the buffers
    state       TEXT NOT NULL CHECK (state IN ('received', 'pre-split', 'post-split', 'published', 'quarantined')),
    attempt     INTEGER NOT NULL DEFAULT 0,  -- of the split; part of the names of what it stores
    token       INTEGER NOT NULL DEFAULT 0,  -- fencing: raised by every claim, shown by every move
    holder      TEXT NOT NULL DEFAULT '',    -- who splits it: name of a process's lock file in the buffers
    lease_until INTEGER NOT NULL DEFAULT 0,  -- until when it is the holder's alone
    failures    INTEGER NOT NULL DEFAULT 0,  -- of this state, in a row, that may pass by themselves
    not_before  INTEGER NOT NULL DEFAULT 0,  -- back-off after a failure
    last_error  TEXT NOT NULL DEFAULT '',
    reason      TEXT NOT NULL DEFAULT '',    -- quarantined: wire.Reason
    detail      TEXT NOT NULL DEFAULT '',
    decision    TEXT NOT NULL DEFAULT '' CHECK (decision IN ('', 'released', 'discarded')), -- the operator's latest about a quarantined batch
    decided_by  TEXT NOT NULL DEFAULT '',
    decided_at  INTEGER NOT NULL DEFAULT 0,
    note        TEXT NOT NULL DEFAULT '',    -- the operator's word
    waived      TEXT NOT NULL DEFAULT '',    -- reasons that no longer stop it, each followed by a space
    edition     TEXT NOT NULL DEFAULT '',    -- published
    version     INTEGER NOT NULL DEFAULT 0,
    received_at INTEGER NOT NULL,
    entered_at  INTEGER NOT NULL,            -- when it entered its state
    collected   INTEGER NOT NULL DEFAULT 0   -- 1: the batch file is gone from the buffers
) STRICT;
CREATE INDEX ingest_batches_by_state ON ingest_batches (state, received_at);
CREATE INDEX ingest_batches_by_time ON ingest_batches (received_at, id);
-- Collection asks often for the few published batches whose files are still there. With both columns
-- in the index SQLite chooses it without statistics.
CREATE INDEX ingest_batches_uncollected ON ingest_batches (state, collected, entered_at) WHERE state = 'published' AND collected = 0;

-- What the split of a batch has staged: a catalog line (JSON) for each host, of the current attempt
-- only. Dropped once the batch is published.
CREATE TABLE ingest_lines (
    id      TEXT NOT NULL REFERENCES ingest_batches (id),
    host    TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    line    TEXT NOT NULL,
    PRIMARY KEY (id, host)
) STRICT, WITHOUT ROWID;

-- Names of objects in the object store that no batch has: not yet, or not any more.
CREATE TABLE ingest_incoming (
    name   TEXT PRIMARY KEY,
    since  INTEGER NOT NULL,
    doomed INTEGER NOT NULL DEFAULT 0 -- 1: no batch will ever have it; the objects are deleted
) STRICT;

-- One row: how far the reading and verifying of the whole store is, and what it has found.
CREATE TABLE scrub (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    state TEXT NOT NULL -- JSON
) STRICT;

-- Consumers and what they fetch.

CREATE TABLE accounts (
    name      TEXT    NOT NULL PRIMARY KEY,
    password  TEXT    NOT NULL,            -- argon2id PHC string
    email     TEXT    NOT NULL DEFAULT '', -- by which the password can be reset; '': none
    suspended INTEGER NOT NULL DEFAULT 0,  -- 1: nobody logs in
    domains   TEXT    NOT NULL,            -- separated by spaces; "*" is every host
    opening   TEXT    NOT NULL,            -- a schedule in the grammar of internal/window
    rate      TEXT    NOT NULL DEFAULT '', -- in the grammar of serve/account; '': no limit
    quota     INTEGER NOT NULL DEFAULT 0,  -- bytes a day; 0: none
    terms     TEXT    NOT NULL DEFAULT '', -- that its owner has accepted, JSON, see serve/account; '': none
    created   INTEGER NOT NULL             -- Unix seconds
) STRICT;

-- API tokens of accounts, good where the password is. Only their SHA-256 is stored.
CREATE TABLE account_tokens (
    id      TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (name) ON DELETE CASCADE,
    name    TEXT NOT NULL,              -- what its owner calls it
    hash    BLOB NOT NULL UNIQUE,
    uses    TEXT NOT NULL,              -- what it is good for, separated by spaces
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL DEFAULT 0, -- 0: never
    used    INTEGER NOT NULL DEFAULT 0  -- last, to the minute; 0: never
) STRICT;
CREATE INDEX account_tokens_by_account ON account_tokens (account);

-- What every account has had of a day (20261121, in the service's zone).
CREATE TABLE account_bytes (
    account TEXT    NOT NULL,
    day     TEXT    NOT NULL,
    bytes   INTEGER NOT NULL,
    PRIMARY KEY (account, day)
) STRICT;
CREATE INDEX account_bytes_by_day ON account_bytes (day);

-- What not everybody may see: see serve/account.
CREATE TABLE access_rules (
    id      INTEGER PRIMARY KEY,
    rule    TEXT    NOT NULL,           -- JSON
    created INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0, -- 0: in force
    told    INTEGER NOT NULL DEFAULT 0, -- until when the change feed has told of what its embargo has set free
    epoch   INTEGER NOT NULL DEFAULT 0  -- how often that was too much to tell, so that followers begin anew
) STRICT;

-- Log-ins and resets are kept by the SHA-256 of their tokens, so that who reads the database cannot
-- use them.
CREATE TABLE sessions (
    token   TEXT PRIMARY KEY,  -- hash, as scs writes it
    data    BLOB NOT NULL,     -- as scs writes it
    begun   INTEGER NOT NULL,
    expires INTEGER NOT NULL   -- moves while the session is used
) STRICT;
CREATE INDEX sessions_by_expiry ON sessions (expires);

CREATE TABLE password_resets (
    hash    BLOB PRIMARY KEY,
    account TEXT NOT NULL,
    mark    TEXT NOT NULL,     -- of the password that is to be reset; another one ends the reset
    expires INTEGER NOT NULL
) STRICT;

-- Every upload from a robot and every download by an account.
CREATE TABLE transfers (
    id           INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL, -- start
    direction    TEXT NOT NULL CHECK (direction IN ('upload', 'download')),
    protocol     TEXT NOT NULL,
    who          TEXT NOT NULL,
    name         TEXT NOT NULL,
    bytes        INTEGER NOT NULL,
    took_us      INTEGER NOT NULL, -- microseconds
    count        INTEGER NOT NULL DEFAULT 1, -- of transfers: small downloads that repeat are one row
    acknowledged INTEGER NOT NULL DEFAULT 0, -- 1: bytes and time are what the client has acknowledged; 0: what the service wrote or read
    outcome      TEXT NOT NULL CHECK (outcome IN ('ok', 'aborted')),
    remote       TEXT NOT NULL
) STRICT;
CREATE INDEX transfers_by_time ON transfers (at);
CREATE INDEX transfers_by_who ON transfers (who, at);
CREATE INDEX transfers_with_address ON transfers (at) WHERE direction = 'download' AND remote <> '';

-- Sums of transfers by the hour in which they began and, of hours long ago, by the day.
CREATE TABLE transfer_totals (
    span      TEXT NOT NULL CHECK (span IN ('hour', 'day')),
    begin     INTEGER NOT NULL,
    direction TEXT NOT NULL,
    protocol  TEXT NOT NULL,
    who       TEXT NOT NULL,
    transfers INTEGER NOT NULL,
    aborted   INTEGER NOT NULL, -- of the transfers
    bytes     INTEGER NOT NULL,
    took_us   INTEGER NOT NULL, -- microseconds, added up
    PRIMARY KEY (span, begin, direction, protocol, who)
) STRICT, WITHOUT ROWID;
CREATE INDEX transfer_totals_by_time ON transfer_totals (begin);

-- Queries whose records are gathered in the background. What they asked by list, and what was found,
-- lie in the store.
CREATE TABLE jobs (
    id       TEXT PRIMARY KEY,
    account  TEXT NOT NULL,
    form     TEXT NOT NULL,              -- of the file, such as ".warc.gz"
    query    TEXT NOT NULL,              -- the parameters, as in a URL
    list     INTEGER NOT NULL,           -- 1: the body of the request is in the store
    state    TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed')),
    created  INTEGER NOT NULL,
    worker   TEXT NOT NULL DEFAULT '',   -- the attempt under way, or that was the last
    beat     INTEGER NOT NULL DEFAULT 0, -- when it last said how far it is
    finished INTEGER NOT NULL DEFAULT 0,
    scanned  INTEGER NOT NULL DEFAULT 0, -- records looked at
    records  INTEGER NOT NULL DEFAULT 0, -- records found
    bytes    INTEGER NOT NULL DEFAULT 0, -- of the file so far
    problem  TEXT NOT NULL DEFAULT ''    -- why it failed
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_account ON jobs (account, created);
CREATE INDEX jobs_by_state ON jobs (state, created);

-- What consumers watch, what was found, and what has to be told of it.
CREATE TABLE watches (
    id           TEXT    PRIMARY KEY,
    account      TEXT    NOT NULL,
    kind         TEXT    NOT NULL,            -- url, prefix or host
    host         TEXT    NOT NULL,
    url          TEXT    NOT NULL,            -- as the archive keeps it: with the form's fields, where there is a form
    address      TEXT    NOT NULL,            -- that robots ask; empty: there is no single one
    body         TEXT    NOT NULL DEFAULT '', -- of the POST request; empty: GET
    media        TEXT    NOT NULL DEFAULT '', -- type of body
    email        TEXT    NOT NULL DEFAULT '',
    every        TEXT    NOT NULL DEFAULT '', -- change, hour or day: how often mails come
    confirm      TEXT    NOT NULL DEFAULT '', -- token that the address has been sent; empty: it is confirmed
    mail_stopped TEXT    NOT NULL DEFAULT '', -- why nothing more is told by mail: the other side has refused for good
    webhook      TEXT    NOT NULL DEFAULT '',
    hook_stopped TEXT    NOT NULL DEFAULT '', -- likewise by the webhook
    secret       TEXT    NOT NULL,            -- signs what is sent, and the link that ends it
    once         INTEGER NOT NULL DEFAULT 0,  -- 1: the watch ends with the first visit after it was made
    saved        INTEGER NOT NULL DEFAULT 0,  -- time of that visit, once it is published; 0: not yet
    created      INTEGER NOT NULL
) STRICT;
CREATE INDEX watches_by_account ON watches (account, created);
CREATE INDEX watches_by_host ON watches (host);

CREATE TABLE watch_notices (
    id      TEXT    PRIMARY KEY,        -- follows from watch, url and time
    watch   TEXT    NOT NULL,
    account TEXT    NOT NULL,
    what    TEXT    NOT NULL,           -- new, changed, gone or back
    url     TEXT    NOT NULL,
    title   TEXT    NOT NULL DEFAULT '', -- what the page is called, as its visit found it
    at      INTEGER NOT NULL,           -- when it was fetched
    before  INTEGER NOT NULL,           -- when the version before was; 0: there is none
    edition TEXT    NOT NULL,
    found   INTEGER NOT NULL
) STRICT;
CREATE INDEX watch_notices_by_watch ON watch_notices (watch, found);
CREATE INDEX watch_notices_by_account ON watch_notices (account, found);

CREATE TABLE watch_deliveries (
    id       TEXT    PRIMARY KEY,
    watch    TEXT    NOT NULL,
    notice   TEXT    NOT NULL,           -- empty: asks to confirm the address
    channel  TEXT    NOT NULL,           -- mail or webhook
    state    TEXT    NOT NULL,           -- waiting, sent or dead
    due      INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    error    TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX watch_deliveries_by_due ON watch_deliveries (state, due);
CREATE INDEX watch_deliveries_by_watch ON watch_deliveries (watch);

-- Webhooks that fail, so that each is asked ever more rarely, however many notices wait for it.
CREATE TABLE watch_hooks (
    account  TEXT    NOT NULL,
    webhook  TEXT    NOT NULL,
    failures INTEGER NOT NULL, -- in a row
    resume   INTEGER NOT NULL, -- when it may be called again
    PRIMARY KEY (account, webhook)
) STRICT;

-- How far the change feed was read.
CREATE TABLE watch_place (
    name  TEXT    PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT;

-- Operators and owners of sites.

-- Operators with names, roles and passwords. The token of the data directory is not among them.
CREATE TABLE operators (
    name      TEXT PRIMARY KEY,
    password  TEXT NOT NULL,              -- argon2id PHC string; '': logs in at an OpenID provider
    subject   TEXT NOT NULL DEFAULT '',   -- issuer and subject there, separated by a space; '': logs in by password
    role      TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    suspended INTEGER NOT NULL DEFAULT 0, -- 1: cannot log in
    created   INTEGER NOT NULL,
    seen      INTEGER NOT NULL DEFAULT 0  -- last log-in, to the minute; 0: never
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX operators_by_subject ON operators (subject) WHERE subject <> '';

-- The audit log: one row for each act, log-in and failure. A row is written before the act and
-- completed after it, and stays until it expires.
CREATE TABLE audit (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL, -- of the actor: operator, account, robot, visitor, command
    name    TEXT NOT NULL, -- of the actor; '' is nobody known
    address TEXT NOT NULL, -- where the request came from; '' is unknown, or kept long enough
    act     TEXT NOT NULL,
    object  TEXT NOT NULL, -- what the act was about, such as "account alice"
    begun   INTEGER NOT NULL DEFAULT 0, -- 1: how the act ended is not known, and outcome says nothing yet
    outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'failed', 'refused')),
    count   INTEGER NOT NULL DEFAULT 1, -- of acts: what clients that are not known repeat is one row
    reason  TEXT NOT NULL, -- why, as the actor said; of what did not succeed, as the service said
    request TEXT NOT NULL  -- ID of the HTTP request, as a proxy gave it
) STRICT;
CREATE INDEX audit_by_time ON audit (at);
CREATE INDEX audit_by_name ON audit (name, id);
CREATE INDEX audit_with_address ON audit (at) WHERE address <> '';

-- What owners of sites ask to be removed.
CREATE TABLE removals (
    id      TEXT PRIMARY KEY,
    secret  TEXT NOT NULL,              -- of the link to its page
    wish    TEXT NOT NULL,              -- removal or exclusion
    kind    TEXT NOT NULL,              -- host, prefix or domain
    target  TEXT NOT NULL,              -- the host, URL or domain
    site    TEXT NOT NULL,              -- registered domain of the target, for limits
    email   TEXT NOT NULL,              -- of the asker
    reason  TEXT NOT NULL,
    lang    TEXT NOT NULL,              -- of the form, and so of the mails
    network TEXT NOT NULL,              -- from which it was asked, for limits; '' after a day
    created INTEGER NOT NULL,
    state   TEXT NOT NULL,              -- open, proved, granted, refused or expired
    proof   TEXT NOT NULL DEFAULT '',   -- how it was proved; '': not
    answer  TEXT NOT NULL DEFAULT '',   -- the operator's words to the asker
    decided INTEGER NOT NULL DEFAULT 0,
    carried INTEGER NOT NULL DEFAULT 0, -- when a grant was carried out
    code_hash  BLOB,                    -- SHA-256 of the code in the last mail to the site
    code_to    TEXT NOT NULL DEFAULT '',
    code_until INTEGER NOT NULL DEFAULT 0,
    code_tries INTEGER NOT NULL DEFAULT 0,
    codes      INTEGER NOT NULL DEFAULT 0, -- mails with codes that were sent
    checks     INTEGER NOT NULL DEFAULT 0, -- how often file or DNS were looked at
    checked    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX removals_by_state ON removals (state, created);
CREATE INDEX removals_by_created ON removals (created);

-- Up to where the database has what the catalog's log keeps of what hides or excludes something.
CREATE TABLE restrictions_known (
    kind TEXT PRIMARY KEY,
    seq  INTEGER NOT NULL -- sequence number in the catalog
) STRICT;

CREATE TABLE removal_events (
    removal TEXT NOT NULL,
    n       INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    by_whom TEXT NOT NULL,              -- asker, service, or an operator's name
    act     TEXT NOT NULL,
    note    TEXT NOT NULL,
    PRIMARY KEY (removal, n)
) STRICT, WITHOUT ROWID;

-- Mails that wait to be sent.
CREATE TABLE mails (
    id        TEXT PRIMARY KEY,
    recipient TEXT NOT NULL,
    subject   TEXT NOT NULL,
    body      TEXT NOT NULL,
    due       INTEGER NOT NULL,
    attempts  INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0, -- 1: given up
    error     TEXT NOT NULL DEFAULT '',
    created   INTEGER NOT NULL
) STRICT;
CREATE INDEX mails_by_due ON mails (failed, due);
