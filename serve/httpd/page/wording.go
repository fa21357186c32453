package page

// Wording has the texts of the pages in one language.
type Wording struct {
	Archive, Version, Of, First, Prev, Next, Last, AllVersions, Changes, ToBytes          string
	Truncated, Unchanged, Status, Forwards                                                string
	Versions, Time, Kind, Size, Note, Compare, From, To, SameText, NotListed, WithScripts string
	Missing, MissingWhy, Near, RedirectOut                                                string
	Diff, Identical, NoText, Coarse, More, Removed, Added, Characters, Paragraphs         string
	Title, Empty, DigestSame, DigestOther                                                 string

	Buttons map[string]Button // by verb of a link in a mail: "confirm" and "stop"
}

// Button has the texts of a page with one button.
type Button struct{ Question, Yes, Done string }

var english = Wording{
	Archive: "Archive", Version: "version", Of: "of", First: "first", Prev: "previous", Next: "next", Last: "last",
	AllVersions: "all versions", Changes: "what changed", ToBytes: "original bytes",
	Truncated: "The page is not whole: the robot stopped reading it",
	Unchanged: "unchanged since", Status: "the server answered with status", Forwards: "This page forwards to",
	Versions: "Versions of a page", Time: "Time", Kind: "Type", Size: "Bytes", Note: "Remarks", Compare: "Compare",
	From: "from", To: "to", SameText: "unchanged", WithScripts: "with its scripts, in ReplayWeb.page", NotListed: "Older versions are in the TimeMap:",
	Missing: "This page is not in the archive", MissingWhy: "It was never collected, or it is not open to this account, or it was taken down.",
	Near: "Pages with a similar address", RedirectOut: "The server sent its readers elsewhere",
	Diff: "What changed", Identical: "There is no difference in what a reader can read.",
	NoText:  "These versions are not text, so they can be told apart by their bytes only.",
	Coarse:  "The versions differ in so much that some differences are shown as a whole.",
	More:    "Only the beginning of the page was compared: it is too large.",
	Removed: "removed", Added: "added", Characters: "characters", Paragraphs: "unchanged paragraphs",
	Title: "Title", Empty: "(none)", DigestSame: "The bytes are the same.", DigestOther: "The bytes differ.",
	Buttons: map[string]Button{
		"confirm": {"Do you want mails about this watch?", "Yes, send them", "Mails will come."},
		"stop":    {"Do you want no more mails about this watch?", "Yes, stop them", "No more mails will come."},
	},
}

var japanese = Wording{
	Archive: "アーカイブ", Version: "版", Of: "/", First: "最初", Prev: "前", Next: "次", Last: "最新",
	AllVersions: "すべての版", Changes: "変更箇所", ToBytes: "元のデータ",
	Truncated: "このページは途中までしか収集されていません",
	Unchanged: "次の時点から変更なし", Status: "サーバの応答コード", Forwards: "このページの転送先",
	Versions: "ページの版一覧", Time: "日時", Kind: "種類", Size: "バイト数", Note: "備考", Compare: "比較する",
	From: "比較元", To: "比較先", SameText: "変更なし", WithScripts: "ReplayWeb.page で表示(スクリプトあり)", NotListed: "これより古い版は TimeMap にあります:",
	Missing: "このページはアーカイブにありません", MissingWhy: "収集されていないか、このアカウントには公開されていないか、公開が停止されています。",
	Near: "アドレスの近いページ", RedirectOut: "サーバは別の場所へ転送しました",
	Diff: "変更箇所", Identical: "読者に見える文章に違いはありません。",
	NoText:  "文章ではないため、データが同じかどうかだけを示します。",
	Coarse:  "違いが多いため、一部はまとめて示します。",
	More:    "ページが大きいため、先頭の部分だけを比較しました。",
	Removed: "削除", Added: "追加", Characters: "文字", Paragraphs: "段落は変更なし",
	Title: "題名", Empty: "(なし)", DigestSame: "データは同じです。", DigestOther: "データが異なります。",
	Buttons: map[string]Button{
		"confirm": {"この通知をメールで受け取りますか。", "受け取る", "メールをお送りします。"},
		"stop":    {"この通知のメールを止めますか。", "止める", "メールを止めました。"},
	},
}
