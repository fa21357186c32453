package api

// Paths for consumers.
const (
	PathTree     = "/pub/"           // the tree of files
	PathArchives = "/a/"             // the archives of hosts, by host name
	PathHosts    = "/v1/hosts"       // GET: HostList
	PathEditions = "/v1/editions"    // GET: EditionList
	PathImported = "/v1/collections" // GET: catalog.CollectionList
	PathVersion  = "/v1/version"     // GET: VersionDocument
	PathChanges  = "/v1/changes"     // GET: Page
	PathCDX      = "/v1/cdx"         // GET, POST: index lines of records
	PathPages    = "/v1/pages"       // with a form such as ".warc.gz": GET: records as one file; POST: JobStatus
	PathTables   = "/v1/tables/"     // with a table's name, "records.parquet": GET: the table; POST: JobStatus
	PathCoverage = "/v1/coverage"    // GET, POST: CoverageList

	PathInlinks     = "/v1/inlinks"       // GET: InlinkList
	PathInlinkHosts = "/v1/inlinks/hosts" // GET: InlinkHostList
	PathJobs        = "/v1/jobs"          // GET: JobList; below it JobStatus and the result
	PathTokens      = "/v1/tokens"        // GET: account.TokenList; POST: account.NewToken; below it DELETE
	PathWatches     = "/v1/watches"       // GET: watch.WatchList; POST: watch.Wish; below it watch.WatchDocument

	PathTimeGate  = "/timegate/" // with a URL (RFC 7089)
	PathTimeMap   = "/timemap/"  // with a URL: link-format, or TimeMap
	PathDiff      = "/diff/"     // with two timestamps and a URL: HTML, or DiffDocument
	PathRobotPage = "/robot/"    // with a signed link: one robot, for the people at its site
	PathReplay    = "/replay/"   // ReplayWeb.page

	PathRobots = "/robots/"          // HTML, for owners of sites: who the robots are, and whether a visitor was a robot
	PathVisits = "/v1/robots/visits" // POST: removal.Visit: whether a visitor was a robot; removal.Findings

	PathFind     = "/find"    // with q: leads to a page's versions, or to a host or domain
	PathWatching = "/watches" // HTML: the account's watches; with url or host: a form for a new watch

	PathOpenAPI = "/v1/openapi.yaml" // the description of the API
)

// Paths for operators.
const (
	PathAdminAccounts  = "/v1/admin/accounts"         // GET: account.AccountList; POST: account.NewAccount; below it PATCH, DELETE, and tokens as in PathTokens
	PathAdminAccess    = "/v1/admin/access"           // GET: account.RuleList; POST: account.Rule; below it DELETE
	PathAdminWrong     = "/v1/admin/wrong"            // GET: what is wrong now
	PathAdminRobots    = "/v1/admin/robots"           // GET, POST; below it single robots
	PathAdminHosts     = "/v1/admin/hosts"            // GET, POST
	PathAdminDomains   = PathAdminHosts + "/domains"  // GET: refused domains, which robots leave out; POST: refuse one; below it DELETE
	PathAdminPrefixes  = PathAdminHosts + "/prefixes" // GET: refused parts of hosts, which robots leave out; POST: refuse one; DELETE with url: accept it again
	PathAdminRemovals  = "/v1/admin/removals"         // GET: removal requests of sites' owners; below it single requests
	PathAdminBalance   = "/v1/admin/balance"          // GET: the distribution of work; POST plan: make a plan; POST rebalance: carry out a plan
	PathAdminCopies    = "/v1/admin/copies"           // GET: a comparison of the copies of hosts that several robots collect
	PathAdminReleases  = "/v1/admin/releases"         // GET, POST; below it the key and single releases
	PathAdminBatches   = "/v1/admin/batches"          // GET: buffers and batches; below it single batches
	PathAdminPublish   = "/v1/admin/publish"          // POST: publish now
	PathAdminImports   = "/v1/admin/imports"          // POST: import a foreign file or a batch
	PathAdminCollect   = "/v1/admin/gc"               // POST: delete objects that nothing refers to
	PathAdminTakedowns = "/v1/admin/takedowns"        // GET, POST: of a host, or of a collection
	PathAdminImported  = "/v1/admin/collections"      // GET: catalog.CollectionList, including collections that are taken down or hidden
	PathAdminLift      = PathAdminTakedowns + "/lift"
	PathAdminRebuild   = "/v1/admin/urls/rebuild" // POST: make the URL index anew
	PathAdminBackup    = "/v1/admin/backup"       // GET: a backup of the running service
	PathAdminKeys      = "/v1/admin/keys"         // GET: service.KeyList; POST rotate, use
	PathAdminOperators = "/v1/admin/operators"    // GET: operators.OperatorList; POST: operators.NewOperator; below it PATCH, DELETE
	PathOwnPassword    = "/v1/operator/password"  // PUT: operators.NewPassword
	PathAudit          = "/v1/audit"              // GET: audit.RowList
	PathTransfers      = "/v1/transfers"          // GET: transfers.Document
	PathPeriods        = PathTransfers + "/periods"
)

// Paths for load balancers and monitoring.
const (
	PathLive   = "/livez"   // 200 while the process is alive; otherwise restart it
	PathReady  = "/readyz"  // 200 if the process can do its work; otherwise 503, and it should get no requests
	PathHealth = "/healthz" // like PathReady, with the result of every check
)

// Names of tables. The path of a query's table is PathTables and the name; the name of a volume's
// table begins with the volume's number and a dot.
const (
	TableOfRecords = "records.parquet"
	TableOfHosts   = "hosts.parquet"
	TableOfLinks   = "links.parquet"

	// The texts of pages, as a table and as WET: see package texts. Volumes and hosts have both
	// files.
	TableOfTexts = "texts.parquet"
	TextsAsWET   = "wet.gz"

	// The links of TableOfLinks, ordered by target, and the hosts that link to other hosts. Only
	// volumes of the latest versions have these tables.
	TableOfInlinks   = "inlinks.parquet"
	TableOfLinkHosts = "linkhosts.parquet"
)

// Parquet is the media type of tables.
const Parquet = "application/vnd.apache.parquet"
