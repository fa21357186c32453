// Package results makes files of what queries found: bundles and tables. It has the jobs that make
// them, and the makers of those that the tree offers for volumes.
//
// # Bundles
//
// A Bundle puts chosen records of many segments together as one file, a bundle. A bundle holds no
// pages, only which records of which segments it consists of: a few bytes a record and some hundred
// a segment. Its bytes are copies of stored ranges, any of which can be read at once.
//
// # Tables
//
// A Table is what a query found: a Parquet file with one row for each record, for each link of the
// records, or for each host and batch. It is for programs such as DuckDB and Spark. docs/queries.md
// describes the columns.
//
// A table of records is a file in a temporary folder or, of a job, in the object store. It is
// written once, as records come, and holds no more than a row group in memory. All but charset and
// language is in the index. For these the beginning of each text is read, which takes too long for
// a table that a client waits for: there they are NULL. The rows come host by host in the order of
// the tree, and of each host by url_surtkey and fetch_time. Pages are small, and their least and
// greatest values are in the file's index, so a reader that wants one host or domain fetches a few
// ranges.
//
// # Texts
//
// The texts of pages have two forms, a table and a WET file (see package texts). They are made in
// one pass over the pages, several of which are read at once.
//
// # Jobs
//
// Jobs runs queries in the background that are too large for one answer, and gathers their records
// into a file, or tells of them in a table. A job is a row in the database. Its list of targets and
// its result are in the store, as jobs/<id>/list and jobs/<id>/<attempt>; the bytes of a table are
// in jobs/<id>/<attempt>.table.
//
// Any serve process may work on any job. If a worker dies, another one starts the job from the
// beginning, since a file is of one version of the catalog: what was found before may have been
// taken down since, or the account may have lost access to it. That repeats the search, but copies
// no pages. A job of which three workers have died is given up. The result of a query for pages
// only lists which records of which segments the file consists of. Results are kept for a limited
// time.
//
// # Makers
//
// TableMaker makes tables of each day's records, hosts and links, for each volume of each top-level
// domain (see package tree). It works beside publication.
//
// A table is made once, for what an account without special rights sees of the volume. When
// something in the volume is taken down, comes back or is no longer hidden, the table is made
// again; until then nobody sees it. Only the newest days have tables. Before the tables TableMaker
// asks the tree for what the two newest days changed (see tree.MakeChanges), so that readers of its
// process need not wait for it.
//
// Another TableMaker makes the texts of the pages of the newest days, and makes them again when the
// extraction has another version (see package texts). It takes its time, and has its own lease. A
// third one makes tables of the latest versions' links, sorted by page and sorted by target. From
// the latter the service tells who links to a page.
//
// CurrentMaker finds which hosts lie in which volume of a domain's latest versions. From that the
// tree offers the latest version of every page of a domain in a few large files (see tree.Current).
package results
