// kafkajs against a secured listener: a record there and back, in a group, as a user, with a certificate or a token.
//   node kafkajs_secured.js BOOTSTRAP CA LOGIN USER SECRET   LOGIN: plain, scram-sha-256, scram-sha-512, oauthbearer, certificate
// Prints ok, or refused if the broker refuses the login.
const { readFileSync } = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, ca, login, username, secret] = process.argv.slice(2)
const ssl = { ca: [readFileSync(ca)] }
let sasl
if (login === 'certificate') ssl.cert = ssl.key = readFileSync(secret)
else if (login === 'oauthbearer') sasl = { mechanism: login, oauthBearerProvider: async () => ({ value: secret }) }
else sasl = { mechanism: login, username, password: secret }
const kafka = new Kafka({ brokers: [bootstrap], ssl, sasl, logLevel: logLevel.NOTHING, retry: { retries: 5 } })

async function main() {
  const topic = `kafkajs-secured-${process.pid}`
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic }], waitForLeaders: true })
  await admin.disconnect()
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'hello' }] })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: topic })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const value = await new Promise((resolve, reject) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject)
  })
  await consumer.disconnect()
  console.log(value === 'hello' ? 'ok' : value)
}

main().catch(failure => {
  const isRefused = failure.name === 'KafkaJSSASLAuthenticationError'
  console.log(isRefused ? 'refused' : failure)
  process.exit(isRefused ? 0 : 1)
})
