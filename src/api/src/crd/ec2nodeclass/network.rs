//! Interfaces, connection tracking and metadata service of an EC2NodeClass (spec aws-provider 1.5).

use serde_json::json;

use super::super::schema::Schema;

pub(super) fn network_interfaces() -> Schema {
    let interface = Schema::object()
        .required("deviceIndex", Schema::int32().within(0..))
        .required("interfaceType", Schema::string().one_of(["interface", "efa-only"]))
        .required("networkCardIndex", Schema::int32().within(0..));
    Schema::list(interface)
        .items(..=150)
        .describe("Network interfaces of the instances; unset makes one, and one per card for EFA.")
        .rule(
            "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
            "must have an interface with networkCardIndex 0, deviceIndex 0 and interfaceType 'interface'",
        )
        .rule(
            "self.all(x, self.exists_one(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex))",
            "each pair of networkCardIndex and deviceIndex must be unique",
        )
        .rule(
            "self.all(x, x.interfaceType != 'efa-only' || self.exists_one(y, y.interfaceType == 'efa-only' && x.networkCardIndex == y.networkCardIndex))",
            "must have at most one efa-only interface per network card",
        )
}

pub(super) fn connection_tracking() -> Schema {
    Schema::object()
        .describe("Idle timeouts of tracked connections, in seconds.")
        .optional("tcpEstablishedTimeout", Schema::int32().within(60..=432_000))
        .optional("udpStreamTimeout", Schema::int32().within(60..=180))
        .optional("udpTimeout", Schema::int32().within(30..=60))
        .rule(
            "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
            "at least one of ['tcpEstablishedTimeout', 'udpStreamTimeout', 'udpTimeout'] must be set",
        )
}

pub(super) fn metadata_options() -> Schema {
    let toggle = |default: &str| Schema::string().default_value(default).one_of(["enabled", "disabled"]);
    Schema::object()
        .default_value(json!({
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "required",
        }))
        .describe("The instance metadata service.")
        .optional("httpEndpoint", toggle("enabled"))
        .optional("httpProtocolIPv6", toggle("disabled"))
        .optional(
            "httpPutResponseHopLimit",
            Schema::int64().default_value(1).within(1..=64).describe("Network hops an answer may travel."),
        )
        .optional("httpTokens", Schema::string().default_value("required").one_of(["required", "optional"]))
}
