//! The way in for questions: HTTP, answered to the process's own machine only.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};

use super::{Explanations, Question};

/// `/explain`.
pub fn routes(explanations: Explanations) -> Router {
    Router::new().route("/explain", get(explain)).with_state(explanations)
}

async fn explain(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Query(parameters): Query<BTreeMap<String, String>>,
    State(explanations): State<Explanations>,
) -> Response {
    // `::ffff:127.0.0.1` is what a socket for both families calls a loopback peer.
    if !peer.ip().to_canonical().is_loopback() {
        let text = "explanations are for this machine only; use `kubectl port-forward`";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    match Question::from_parameters(&parameters) {
        Ok(question) => Json(explanations.answer(&question)).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use kube::client::Body;
    use tower::ServiceExt;

    use super::*;

    async fn ask(peer: &str, path: &str) -> StatusCode {
        let peer: SocketAddr = peer.parse().unwrap();
        let request = Request::get(path).extension(ConnectInfo(peer)).body(Body::empty()).unwrap();
        let request = request.map(axum::body::Body::new);
        routes(Explanations::default()).oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn only_its_own_machine_is_answered() {
        assert_eq!(ask("127.0.0.1:1", "/explain?node=a").await, StatusCode::OK);
        assert_eq!(ask("[::1]:1", "/explain").await, StatusCode::OK);
        assert_eq!(ask("[::ffff:127.0.0.1]:1", "/explain?pod=a%2Fb").await, StatusCode::OK);
        for stranger in ["10.0.0.7:1", "[fd00::1]:1", "[::ffff:10.0.0.7]:1", "0.0.0.0:1"] {
            assert_eq!(ask(stranger, "/explain?node=a").await, StatusCode::FORBIDDEN, "{stranger}");
        }
        assert_eq!(ask("127.0.0.1:1", "/explain?secret=a").await, StatusCode::BAD_REQUEST);
    }
}
