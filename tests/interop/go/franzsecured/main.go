// franz-go against a secured listener: a record there and back, in a group, as a user, with a certificate or a token.
//
//	franzsecured BOOTSTRAP CA LOGIN [USER SECRET]   LOGIN: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, CERTIFICATE
//
// Prints ok, or refused if the broker refuses the login.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func must(err error) {
	if errors.Is(err, kerr.SaslAuthenticationFailed) {
		fmt.Println("refused")
		os.Exit(0)
	}
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func main() {
	log.SetFlags(log.Lshortfile)
	bootstrap, ca, login := os.Args[1], os.Args[2], os.Args[3]
	user, secret := os.Args[4], os.Args[5]
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	trusted := x509.NewCertPool()
	pem, err := os.ReadFile(ca)
	must(err)
	trusted.AppendCertsFromPEM(pem)
	security := &tls.Config{RootCAs: trusted}
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.DialTLSConfig(security)}
	switch login {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: secret}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: secret}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: secret}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: secret}.AsMechanism()))
	case "CERTIFICATE":
		certificate, err := tls.LoadX509KeyPair(secret, secret)
		must(err)
		security.Certificates = []tls.Certificate{certificate}
	}
	client, err := kgo.NewClient(options...)
	must(err)
	defer client.Close()
	must(client.Ping(ctx))
	topic := fmt.Sprintf("franz-secured-%d", os.Getpid())
	_, err = kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, topic)
	must(err)
	must(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("hello")}).FirstErr())
	consumer, err := kgo.NewClient(append(options, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	must(err)
	defer consumer.Close()
	for {
		fetches := consumer.PollFetches(ctx)
		must(fetches.Err())
		for _, record := range fetches.Records() {
			if string(record.Value) == "hello" {
				must(consumer.CommitUncommittedOffsets(ctx))
				fmt.Println("ok")
				return
			}
		}
	}
}
