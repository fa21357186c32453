// Package api has the paths of the HTTP API and the JSON documents that it takes and answers, for
// the service, its command line and its clients. What robots and the service tell each other is in
// package wire. The operations are described in cmd/sheaf/service/openapi.
package api

// Paths for consumers.
const (
	PathTree     = "/pub/"        // the tree of files
	PathArchives = "/a/"          // the archives of hosts, by host name
	PathHosts    = "/v1/hosts"    // GET: HostList
	PathEditions = "/v1/editions" // GET: EditionList
	PathVersion  = "/v1/version"  // GET: VersionDocument
	PathChanges  = "/v1/changes"  // GET: feed.Page of package serve/feed
	PathCDX      = "/v1/cdx"      // GET, POST: index lines of records
	PathPages    = "/v1/pages"    // with a form such as ".warc.gz": GET: records as one file; POST: JobStatus
	PathCoverage = "/v1/coverage" // GET, POST: CoverageList
	PathJobs     = "/v1/jobs"     // GET: JobList; below it JobStatus and the result
	PathWatches  = "/v1/watches"  // GET, POST; below it single watches

	PathTimeGate = "/timegate/" // with a URL (RFC 7089)
	PathTimeMap  = "/timemap/"  // with a URL: link-format, or TimeMap
	PathDiff     = "/diff/"     // with two timestamps and a URL: HTML, or DiffDocument
	PathReplay   = "/replay/"   // ReplayWeb.page
)

// Paths for operators.
const (
	PathAccounts = "/v1/admin/accounts" // GET: AccountList; POST: NewAccount; below it PATCH, DELETE
)
