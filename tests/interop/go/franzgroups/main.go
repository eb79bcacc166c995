// franz-go's consumers in groups: every balancer and the consumer protocol (KIP-848), static members, admin.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func must(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func truth(claim bool, format string, values ...any) {
	if !claim {
		log.Output(2, fmt.Sprintf(format, values...))
		os.Exit(1)
	}
}

func eventually(what func() string, holds func() bool) {
	for end := time.Now().Add(30 * time.Second); !holds(); {
		truth(time.Now().Before(end), "%s", what())
		time.Sleep(20 * time.Millisecond)
	}
}

type seen struct {
	sync.Mutex
	counts map[string]int
}

type member struct {
	sync.Mutex
	client *kgo.Client
	owned  map[int32]bool
	moves  int
	done   chan struct{}
}

func (m *member) share() []int32 {
	m.Lock()
	defer m.Unlock()
	var partitions []int32
	for partition := range m.owned {
		partitions = append(partitions, partition)
	}
	sort.Slice(partitions, func(a, b int) bool { return partitions[a] < partitions[b] })
	return partitions
}

func join(ctx context.Context, bootstrap, group, topic string, all *seen, options ...kgo.Opt) *member {
	m := &member{owned: map[int32]bool{}, done: make(chan struct{})}
	change := func(add bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.Lock()
			defer m.Unlock()
			for _, partition := range partitions[topic] {
				m.moves++
				if add {
					m.owned[partition] = true
				} else {
					delete(m.owned, partition)
				}
			}
		}
	}
	fixed := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.SessionTimeout(3 * time.Second),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	}
	client, err := kgo.NewClient(append(fixed, options...)...)
	must(err)
	m.client = client
	go func() {
		defer close(m.done)
		for {
			fetches := client.PollFetches(ctx)
			if fetches.IsClientClosed() {
				return
			}
			all.Lock()
			fetches.EachRecord(func(record *kgo.Record) { all.counts[fmt.Sprint(record.Partition, "/", record.Offset)]++ })
			all.Unlock()
			if !fetches.Empty() {
				client.CommitUncommittedOffsets(ctx)
			}
		}
	}()
	return m
}

func (m *member) leave() {
	m.client.Close()
	<-m.done
	m.Lock()
	m.owned = map[int32]bool{}
	m.Unlock()
}

func sharesAre(members []*member, sizes ...int) {
	say := func() string {
		text := "shares are"
		for _, m := range members {
			text += fmt.Sprint(" ", m.share())
		}
		return text
	}
	eventually(say, func() bool {
		union := map[int32]bool{}
		var counts []int
		total := 0
		for _, m := range members {
			share := m.share()
			counts = append(counts, len(share))
			for _, partition := range share {
				union[partition] = true
			}
		}
		sort.Ints(counts)
		for _, size := range sizes {
			total += size
		}
		return fmt.Sprint(counts) == fmt.Sprint(sizes) && len(union) == total
	})
}

func write(ctx context.Context, producer *kgo.Client, topic string, each int) {
	var records []*kgo.Record
	for partition := int32(0); partition < 6; partition++ {
		for number := 0; number < each; number++ {
			records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte("x")})
		}
	}
	must(producer.ProduceSync(ctx, records...).FirstErr())
}

func (all *seen) each(count int) {
	eventually(func() string { return fmt.Sprintf("read %d of %d", len(all.counts), count*6) }, func() bool {
		all.Lock()
		defer all.Unlock()
		return len(all.counts) >= count*6
	})
	all.Lock()
	defer all.Unlock()
	for record, times := range all.counts {
		truth(times == 1, "%s was read %d times", record, times)
	}
}

func main() {
	log.SetFlags(log.Lshortfile)
	bootstrap := os.Args[1]
	ctx, cancel := context.WithTimeout(context.Background(), 180*time.Second)
	defer cancel()
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(err)
	admin := kadm.NewClient(producer)
	kinds := map[string][]kgo.Opt{
		"range":       {kgo.Balancers(kgo.RangeBalancer())},
		"roundrobin":  {kgo.Balancers(kgo.RoundRobinBalancer())},
		"sticky":      {kgo.Balancers(kgo.StickyBalancer())},
		"cooperative": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
		"consumer":    {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()},
	}
	for kind, options := range kinds {
		name := fmt.Sprintf("franz-%s-%d", kind, os.Getpid())
		_, err := admin.CreateTopic(ctx, 6, 1, nil, name)
		must(err)
		all := &seen{counts: map[string]int{}}
		var members []*member
		for number := 0; number < 3; number++ {
			members = append(members, join(ctx, bootstrap, name, name, all, options...))
		}
		sharesAre(members, 2, 2, 2)
		write(ctx, producer, name, 20)
		all.each(20)
		described, err := admin.DescribeGroups(ctx, name)
		must(err)
		if kind != "consumer" {
			truth(described[name].State == "Stable" && len(described[name].Members) == 3, "%s: %v", kind, described[name])
		}
		members[0].leave()
		sharesAre(members[1:], 3, 3)
		write(ctx, producer, name, 20)
		all.each(40)
		members[1].leave()
		sharesAre(members[2:], 6)
		write(ctx, producer, name, 20)
		all.each(60)
		listed, err := admin.ListGroups(ctx, "Stable")
		must(err)
		truth(listed[name].ProtocolType == "consumer", "%s is listed as %+v", name, listed[name])
		if kind == "consumer" {
			described, err := admin.DescribeConsumerGroups(ctx, name)
			must(err)
			truth(described[name].State == "Stable" && described[name].AssignorName == "uniform", "%+v", described[name])
		}
		eventually(func() string { return "offsets" }, func() bool {
			offsets, err := admin.FetchOffsets(ctx, name)
			must(err)
			for partition := int32(0); partition < 6; partition++ {
				offset, found := offsets.Lookup(name, partition)
				if !found || offset.At != 60 {
					return false
				}
			}
			return true
		})
		if kind != "consumer" { // this client's Lag asks for classic groups only
			lags, err := admin.Lag(ctx, name)
			must(err)
			lag := lags[name]
			truth(lag.Lag.Total() == 0 && lag.Error() == nil, "lag %v", lag)
		}
		members[2].leave()
		eventually(func() string { return "the group cannot be deleted" }, func() bool {
			deleted, err := admin.DeleteGroups(ctx, name)
			must(err)
			return deleted.Error() == nil
		})
	}

	name := fmt.Sprintf("franz-static-%d", os.Getpid())
	_, err = admin.CreateTopic(ctx, 6, 1, nil, name)
	must(err)
	all := &seen{counts: map[string]int{}}
	one := join(ctx, bootstrap, name, name, all, kgo.InstanceID("one"))
	two := join(ctx, bootstrap, name, name, all, kgo.InstanceID("two"))
	sharesAre([]*member{one, two}, 3, 3)
	had, moves := fmt.Sprint(two.share()), one.moves
	two.leave()
	two = join(ctx, bootstrap, name, name, all, kgo.InstanceID("two"))
	sharesAre([]*member{one, two}, 3, 3)
	truth(fmt.Sprint(two.share()) == had && one.moves == moves, "a static member came back to %v, the other moved %d times", two.share(), one.moves-moves)
	write(ctx, producer, name, 20)
	all.each(20)
	one.leave()
	two.leave()
	left, err := admin.LeaveGroup(ctx, kadm.LeaveGroup(name).InstanceIDs("one", "two"))
	must(err)
	must(left.Error())
	fmt.Println("ok")
}
