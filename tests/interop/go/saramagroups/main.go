// sarama's consumer groups: every balance strategy in old and new protocol versions, static members, admin.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/IBM/sarama"
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

func eventually(what string, holds func() bool) {
	for end := time.Now().Add(30 * time.Second); !holds(); {
		truth(time.Now().Before(end), "%s", what)
		time.Sleep(20 * time.Millisecond)
	}
}

type seen struct {
	sync.Mutex
	counts map[string]int
}

type member struct {
	sync.Mutex
	group  sarama.ConsumerGroup
	claims []int32
	all    *seen
	cancel context.CancelFunc
	done   chan struct{}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.Lock()
	defer m.Unlock()
	m.claims = nil
	for _, partitions := range session.Claims() {
		m.claims = append(m.claims, partitions...)
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.Lock()
	defer m.Unlock()
	m.claims = nil
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.all.Lock()
			m.all.counts[fmt.Sprint(message.Partition, "/", message.Offset)]++
			m.all.Unlock()
			session.MarkMessage(message, "")
			session.Commit()
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) share() []int32 {
	m.Lock()
	defer m.Unlock()
	return append([]int32{}, m.claims...)
}

func settings(version sarama.KafkaVersion, strategy sarama.BalanceStrategy, instance string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = version
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 3 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	config.Consumer.Group.InstanceId = instance
	config.Consumer.Group.Rebalance.Retry.Backoff = 100 * time.Millisecond
	config.Consumer.Retry.Backoff = 100 * time.Millisecond
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	return config
}

func join(brokers []string, group, topic string, all *seen, config *sarama.Config) *member {
	consumer, err := sarama.NewConsumerGroup(brokers, group, config)
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: consumer, all: all, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := consumer.Consume(ctx, []string{topic}, m); err != nil && ctx.Err() == nil {
				must(err)
			}
		}
	}()
	return m
}

func (m *member) leave() {
	m.cancel()
	<-m.done
	must(m.group.Close())
}

func sharesAre(members []*member, sizes ...int) {
	eventually("the shares are never "+fmt.Sprint(sizes), func() bool {
		union := map[int32]bool{}
		var counts []int
		for _, m := range members {
			share := m.share()
			counts = append(counts, len(share))
			for _, partition := range share {
				union[partition] = true
			}
		}
		sort.Ints(counts)
		return fmt.Sprint(counts) == fmt.Sprint(sizes) && len(union) == 6
	})
}

func write(brokers []string, topic string, each int, config *sarama.Config) {
	producer, err := sarama.NewSyncProducer(brokers, config)
	must(err)
	for partition := int32(0); partition < 6; partition++ {
		for number := 0; number < each; number++ {
			_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder("x")})
			must(err)
		}
	}
	must(producer.Close())
}

func (all *seen) each(count int) {
	eventually("not everything is read", func() bool {
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
	brokers := []string{os.Args[1]}
	admin, err := sarama.NewClusterAdmin(brokers, settings(sarama.V2_8_0_0, sarama.NewBalanceStrategyRange(), ""))
	must(err)
	strategies := map[string]func() sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange, "roundrobin": sarama.NewBalanceStrategyRoundRobin, "sticky": sarama.NewBalanceStrategySticky,
	}
	for _, version := range []sarama.KafkaVersion{sarama.V1_0_0_0, sarama.MaxVersion} {
		for strategy, make := range strategies {
			name := fmt.Sprintf("sarama-%s-%s-%d", version, strategy, os.Getpid())
			must(admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 6, ReplicationFactor: 1}, false))
			all := &seen{counts: map[string]int{}}
			first := join(brokers, name, name, all, settings(version, make(), ""))
			second := join(brokers, name, name, all, settings(version, make(), ""))
			sharesAre([]*member{first, second}, 3, 3)
			write(brokers, name, 10, settings(version, make(), ""))
			all.each(10)
			first.leave()
			sharesAre([]*member{second}, 6)
			write(brokers, name, 10, settings(version, make(), ""))
			all.each(20)
			described, err := admin.DescribeConsumerGroups([]string{name})
			must(err)
			truth(described[0].State == "Stable" && described[0].Protocol == strategy && len(described[0].Members) == 1, "%+v", described[0])
			second.leave()
			offsets, err := admin.ListConsumerGroupOffsets(name, map[string][]int32{name: {0, 5}})
			must(err)
			truth(offsets.GetBlock(name, 5).Offset == 20, "committed %+v", offsets.GetBlock(name, 5))
			must(admin.DeleteConsumerGroupOffset(name, name, 0))
			groups, err := admin.ListConsumerGroups()
			must(err)
			truth(groups[name] == "consumer", "groups %v", groups)
			must(admin.DeleteConsumerGroup(name))
		}
	}
	name := fmt.Sprintf("sarama-static-%d", os.Getpid())
	must(admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 6, ReplicationFactor: 1}, false))
	all := &seen{counts: map[string]int{}}
	one := join(brokers, name, name, all, settings(sarama.V2_8_0_0, sarama.NewBalanceStrategyRange(), "one"))
	two := join(brokers, name, name, all, settings(sarama.V2_8_0_0, sarama.NewBalanceStrategyRange(), "two"))
	sharesAre([]*member{one, two}, 3, 3)
	had := fmt.Sprint(two.share())
	two.leave()
	two = join(brokers, name, name, all, settings(sarama.V2_8_0_0, sarama.NewBalanceStrategyRange(), "two"))
	sharesAre([]*member{one, two}, 3, 3)
	truth(fmt.Sprint(two.share()) == had, "a static member came back to %v", two.share())
	one.leave()
	two.leave()
	_, err = admin.RemoveMemberFromConsumerGroup(name, []string{"one", "two"})
	must(err)
	fmt.Println("ok")
}
