package openapi_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"sheaf/archive/catalog"
	"sheaf/cmd/sheaf/service"
	"sheaf/ingest/accept"
	"sheaf/ingest/ledger"
	"sheaf/ingest/quarantine"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/costs"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/serve/access"
	"sheaf/serve/account"
	"sheaf/serve/feed"
	"sheaf/serve/watch"
	"sheaf/ui"
	"sheaf/ui/removal"
)

var update = flag.Bool("update", false, "write schemas.yaml anew from the Go types")

// bodies are the types that are sent and taken as JSON.
var bodies = []any{
	api.HostList{}, api.EditionList{}, api.VersionDocument{}, api.CoverageList{}, api.JobStatus{}, api.JobList{}, api.DiffDocument{},
	access.Rule{}, access.RuleList{}, catalog.CollectionList{}, account.NewAccount{}, account.AccountList{}, account.AccountLine{}, account.Change{}, account.NewToken{}, account.TokenList{}, feed.Page{},
	watch.WatchList{}, watch.WatchDocument{}, watch.Wish{},
	wire.Problem{}, wire.JoinRequest{}, wire.JoinResponse{}, wire.Heartbeat{}, wire.Orders{}, wire.WatchList{}, wire.ReportRequest{}, wire.Offer{},
	hosts.Report{}, costs.LogReport{}, wire.AddressReport{}, manager.AdmitRequest{}, manager.AdmitResponse{}, manager.DeadRequest{},
	manager.RobotsResponse{}, manager.PageResponse{}, manager.HostsRequest{}, manager.HostsResponse{}, manager.DomainsResponse{}, hosts.RefusedDomain{}, manager.PrefixesResponse{}, hosts.RefusedPrefix{}, manager.RestartResponse{}, manager.BalanceResponse{},
	costs.HostCosts{}, hosts.DecideRequest{}, hosts.IntervalRequest{}, manager.DecideResponse{}, manager.VisitRequest{}, manager.VisitResponse{}, wire.ReportAnswer{}, manager.RatesResponse{}, levelling.Forecast{}, manager.CopiesResponse{}, manager.ReleaseKeyRequest{}, manager.ReleaseKeyResponse{},
	manager.PublishRequest{}, manager.ReleasesResponse{}, manager.RolloutRequest{},
	ledger.Batch{}, ledger.Buffer{}, quarantine.Word{}, accept.Imported{},
	catalog.Tombstone{}, catalog.Collection{}, transfers.Document{}, transfers.PeriodDocument{}, operators.OperatorList{}, operators.NewOperator{}, operators.OperatorChange{}, operators.NewPassword{}, audit.RowList{}, ui.Front{}, removal.RequestList{}, removal.RequestDocument{}, removal.Decision{}, service.Health{},
	wire.KeyChain{}, service.KeyList{}, service.KeyRotation{}, service.KeyUse{},
}

// maker makes schemas of Go types as encoding/json writes them.
type maker struct {
	schemas map[string]any
	names   map[reflect.Type]string
}

// wish is what is asked for by some of its fields.
var wish = reflect.TypeFor[watch.Wish]()

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

func (m *maker) schema(t reflect.Type) map[string]any {
	nullable := t.Kind() == reflect.Pointer
	if nullable {
		t = t.Elem()
	}
	s := m.plain(t)
	switch {
	case nullable && s["$ref"] != nil: // OpenAPI 3.0 has nothing to say "this schema or null" with
		s = m.object(t)
		s["nullable"] = true
	case nullable && len(s) > 0:
		s["nullable"] = true
	}
	return s
}

func (m *maker) plain(t reflect.Type) map[string]any {
	is := func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage](), is(jsonMarshaler):
		return map[string]any{}
	case is(textMarshaler):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "format": "int64"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "format": "byte", "nullable": true}
		}
		e := t.Elem()
		if e.Kind() == reflect.Pointer { // no list holds a null
			e = e.Elem()
		}
		return map[string]any{"type": "array", "items": m.schema(e), "nullable": true}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": m.schema(t.Elem()), "nullable": true}
	case reflect.Interface:
		return map[string]any{}
	case reflect.Struct:
		if t.Name() == "" {
			return m.object(t)
		}
		return map[string]any{"$ref": "#/components/schemas/" + m.name(t)}
	}
	panic(fmt.Sprintf("%v has no JSON", t))
}

// name gives the name of a struct's schema, which it makes where there is none.
func (m *maker) name(t reflect.Type) string {
	if name, ok := m.names[t]; ok {
		return name
	}
	name := t.Name()
	if _, taken := m.schemas[name]; taken {
		of := path.Base(t.PkgPath())
		name = strings.ToUpper(of[:1]) + of[1:] + name
	}
	m.names[t], m.schemas[name] = name, nil
	m.schemas[name] = m.object(t)
	return name
}

func (m *maker) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported() && !f.Anonymous:
			case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
				add(f.Type)
			case f.Anonymous && name == "" && f.Type.Kind() == reflect.Pointer:
				add(f.Type.Elem())
			default:
				if name == "" {
					name = f.Name
				}
				properties[name] = m.schema(f.Type)
				if !strings.Contains(options, "omit") && t != wish {
					required = append(required, name)
				}
			}
		}
	}
	add(t)
	s := map[string]any{"type": "object", "properties": properties}
	if slices.Sort(required); len(required) > 0 {
		s["required"] = required
	}
	return s
}

// TestSchemas holds schemas.yaml to the Go types. Where they have changed,
// go test ./cmd/sheaf/service/openapi -update writes it anew.
func TestSchemas(t *testing.T) {
	m := &maker{map[string]any{}, map[reflect.Type]string{}}
	for _, body := range bodies {
		m.name(reflect.TypeOf(body))
	}
	m.schemas["Signed"] = map[string]any{ // the envelope of internal/wire, which it keeps to itself
		"type": "object", "required": []string{"signed", "ed25519"}, "properties": map[string]any{
			"signed":  map[string]any{"type": "string", "description": "JSON, as a string: a manifest or a receipt"},
			"ed25519": map[string]any{"type": "string", "format": "byte", "description": "signature of these very bytes"},
		},
	}
	var out bytes.Buffer
	out.WriteString("# Made from the Go types by go test ./cmd/sheaf/service/openapi -update. Do not edit.\n")
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(map[string]any{"x": map[string]any{"schemas": m.schemas}}); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(out.String(), "x:\n", "", 1) // they go on in components
	if *update {
		if err := os.WriteFile("schemas.yaml", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if is, err := os.ReadFile("schemas.yaml"); err != nil || want != string(is) {
		t.Error("schemas.yaml is not what the Go types are: write it anew with go test ./cmd/sheaf/service/openapi -update, and look at what has changed")
	}
}
