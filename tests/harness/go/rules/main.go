// Evaluates alerts with Prometheus' own engine. It reads series and alerts as JSON, and writes the alerts that fire.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

type input struct {
	Series []struct {
		Labels  map[string]string
		Samples [][2]float64 // seconds, value
	}
	Alerts []struct {
		Name string
		Expr string
		For  float64 // seconds
	}
	At   float64 // seconds
	Step float64 // seconds between two evaluations
}

type firing struct {
	Alert  string            `json:"alert"`
	Labels map[string]string `json:"labels"`
}

type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// memory holds all series, in the order of their labels.
type memory []storage.Series

func (m memory) Querier(_, _ int64) (storage.Querier, error) { return m, nil }
func (m memory) Close() error                                { return nil }

func (m memory) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (m memory) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (m memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, one := range m {
		fits := !slices.ContainsFunc(matchers, func(matcher *labels.Matcher) bool {
			return !matcher.Matches(one.Labels().Get(matcher.Name))
		})
		if fits {
			found = append(found, one)
		}
	}
	return &set{found, -1}
}

type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

func main() {
	var in input
	check(json.NewDecoder(os.Stdin).Decode(&in))
	var all memory
	for _, one := range in.Series {
		var samples []chunks.Sample
		for _, pair := range one.Samples {
			samples = append(samples, sample{int64(pair[0] * 1000), pair[1]})
		}
		all = append(all, storage.NewListSeries(labels.FromMap(one.Labels), samples))
	}
	slices.SortFunc(all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	found := []firing{}
	for _, alert := range in.Alerts {
		// It fires when the expression has the labels at each evaluation since ``for`` ago.
		var pending map[string]map[string]string
		for at := in.At - alert.For; at <= in.At; at += max(min(in.Step, alert.For), 1) {
			query, err := engine.NewInstantQuery(context.Background(), all, nil, alert.Expr, time.UnixMilli(int64(at*1000)))
			check(err)
			result := query.Exec(context.Background())
			check(result.Err)
			vector, err := result.Vector()
			check(err)
			now := map[string]map[string]string{}
			for _, one := range vector {
				key := one.Metric.String()
				if _, was := pending[key]; was || pending == nil {
					now[key] = one.Metric.Map()
				}
			}
			pending = now
		}
		for _, one := range pending {
			found = append(found, firing{alert.Name, one})
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(found))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
