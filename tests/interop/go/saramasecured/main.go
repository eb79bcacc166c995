// sarama against a secured listener: a record there and back, as a user, with a certificate or a token.
//
//	saramasecured BOOTSTRAP CA LOGIN USER SECRET   LOGIN: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, CERTIFICATE
//
// Prints ok, or refused if the broker refuses the login.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// conversation is SCRAM as sarama asks for it.
type conversation struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

func must(err error) {
	if errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
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
	brokers, ca, login := []string{os.Args[1]}, os.Args[2], os.Args[3]
	user, secret := os.Args[4], os.Args[5]
	trusted := x509.NewCertPool()
	pem, err := os.ReadFile(ca)
	must(err)
	trusted.AppendCertsFromPEM(pem)
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Metadata.Retry.Max = 0
	config.Producer.Return.Successes = true
	config.Net.TLS.Enable = true
	config.Net.TLS.Config = &tls.Config{RootCAs: trusted}
	if login == "CERTIFICATE" {
		certificate, err := tls.LoadX509KeyPair(secret, secret)
		must(err)
		config.Net.TLS.Config.Certificates = []tls.Certificate{certificate}
	} else {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(login)
		config.Net.SASL.User, config.Net.SASL.Password = user, secret
		config.Net.SASL.TokenProvider = token(secret)
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			if login == "SCRAM-SHA-256" {
				return &conversation{hash: scram.SHA256}
			}
			return &conversation{hash: scram.SHA512}
		}
	}
	client, err := sarama.NewClient(brokers, config)
	must(err)
	admin, err := sarama.NewClusterAdminFromClient(client)
	must(err)
	topic := fmt.Sprintf("sarama-secured-%d", os.Getpid())
	must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	producer, err := sarama.NewSyncProducerFromClient(client)
	must(err)
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("hello")})
	must(err)
	consumer, err := sarama.NewConsumerFromClient(client)
	must(err)
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	must(err)
	select {
	case message := <-partition.Messages():
		fmt.Println(map[bool]string{true: "ok", false: "changed"}[string(message.Value) == "hello"])
	case <-time.After(60 * time.Second):
		must(errors.New("no record within a minute"))
	}
}
