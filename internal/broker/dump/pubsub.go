package dump

import (
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// isPubSub recognises a received message of a pull or a push, and a message by
// itself.
func isPubSub(o fields) bool {
	if o.has("message") {
		return o.has("ackId") || o.has("ack_id") || o.has("subscription") || o.has("deliveryAttempt")
	}
	return (o.has("messageId") || o.has("message_id")) && (o.has("data") || o.has("publishTime") || o.has("publish_time"))
}

// pubsubSource begins the attributes that Pub/Sub adds to a copy when it
// forwards it to a dead-letter topic.
const pubsubSource = "CloudPubSubDeadLetterSource"

// fromPubSub reads a message as "gcloud pubsub subscriptions pull --format=json"
// prints it. What Pub/Sub and its clients add to the attributes is the
// broker's.
func fromPubSub(e entry) (broker.Message, error) {
	o := e.fields
	if o.has("message") {
		inner, err := fieldsOf(o["message"])
		if err != nil {
			return broker.Message{}, err
		}
		o = inner
	}
	id, err := o.text("messageId", "message_id")
	if err != nil {
		return broker.Message{}, err
	}
	m := broker.Message{Copy: broker.CopyID{Entity: e.entity, ID: id}, MessageID: id}
	if m.Body, err = o.decoded("data"); err != nil {
		return m, err
	}
	if m.OrderKey, err = o.text("orderingKey", "ordering_key"); err != nil {
		return m, err
	}
	published, err := o.text("publishTime", "publish_time")
	if err != nil {
		return m, err
	}
	m.SentAt = timeOf(published)
	if m.Receives, err = e.count("deliveryAttempt", "delivery_attempt"); err != nil {
		return m, err
	}
	as, err := o.object("attributes")
	if err != nil {
		return m, err
	}
	if m.Attributes, err = as.attributes(setByPubSub); err != nil {
		return m, err
	}
	return m, pubsubDeath(&m, as)
}

func setByPubSub(name string) bool {
	return strings.HasPrefix(name, pubsubSource) || name == "googclient_deliveryattempt"
}

// pubsubDeath reads what Pub/Sub says of the copy's way to the dead-letter
// topic: the subscription, how often it delivered, when the message was sent.
func pubsubDeath(m *broker.Message, as fields) error {
	for _, name := range as.names() {
		if !setByPubSub(name) {
			continue
		}
		a, err := typed(name, as[name])
		if err != nil {
			return err
		}
		m.System = append(m.System, a)
		value := string(a.Value)
		switch strings.TrimPrefix(name, pubsubSource) {
		case "Subscription":
			m.Origin = value
			mark(m, broker.SystemQuarantinedBy, broker.QuarantinedByMaxReceives)
		case "DeliveryCount":
			if m.Receives, err = as.count(name); err != nil {
				return err
			}
		case "TopicPublishTime":
			if t := timeOf(value); !t.IsZero() {
				m.SentAt = t
			}
		case "DeliveryErrorMessage":
			mark(m, broker.SystemReasonMessage, value)
		}
	}
	return nil
}
