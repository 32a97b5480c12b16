//! Which requests are served. Requests from other sites, for other hosts (DNS rebinding), without
//! the token or with a method other than GET and HEAD are refused before any route sees them. Plain
//! requests change nothing; every change goes over the web socket.

use std::{net::IpAddr, sync::Arc};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};

use board::hex;

use crate::WebError;

/// Cookie with the visitor's id, which gives access to the visitor's games.
const VISITOR_COOKIE: &str = "batch-first-visitor";
/// Cookie with the access token.
const TOKEN_COOKIE: &str = "batch-first-token";
/// Lifetime of the cookies in seconds: 400 days, the longest that browsers allow.
const COOKIE_MAX_AGE: u32 = 34_560_000;

/// Only the page's own scripts, styles and images. The pieces are `data:` images in a style sheet.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; \
    form-action 'self'; frame-ancestors 'none'";

/// For reports: whole pages with their styles inside, which may not run scripts. The route of the
/// reports sets it.
pub const REPORT_CONTENT_POLICY: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";

/// Which hosts and visitors are served.
#[derive(Clone, Debug)]
pub struct AccessPolicy {
    /// The token that visitors need; `None` admits every visitor.
    token: Option<Arc<str>>,
    /// Host names of this server, besides `localhost` and addresses.
    names: Arc<[String]>,
}

/// The visitor's id from the cookie of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitorId(pub String);

impl AccessPolicy {
    /// `names`: host names under which the server is reached, besides `localhost` and plain
    /// addresses.
    #[must_use]
    pub fn new(token: Option<String>, names: Vec<String>) -> Self {
        Self { token: token.map(Arc::from), names: names.into() }
    }

    /// Only configured names are accepted: a hostile site can point its own name at this machine's
    /// address.
    fn is_own_host(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok()
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    fn check(
        &self,
        method: &Method,
        headers: &HeaderMap,
        path: &str,
    ) -> Result<(), (StatusCode, &'static str)> {
        if method != Method::GET && method != Method::HEAD {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD are allowed."));
        }
        let host = header_text(headers, header::HOST.as_str());
        if !host.is_some_and(|host| self.is_own_host(host)) {
            return Err((
                StatusCode::MISDIRECTED_REQUEST,
                "This host name is not allowed. To allow it: batch-first serve --name NAME",
            ));
        }
        let origin = header_text(headers, header::ORIGIN.as_str());
        let is_own = |origin: &str| {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            authority
                .zip(host)
                .is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
        };
        let is_foreign = origin.is_some_and(|origin| !is_own(origin))
            || (path != "/" && header_text(headers, "sec-fetch-site") == Some("cross-site"));
        // Browsers always send the origin of a web socket.
        if is_foreign || (path == "/socket" && origin.is_none()) {
            return Err((StatusCode::FORBIDDEN, "Requests from other sites are refused."));
        }
        Ok(())
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        self.token.as_deref().is_none_or(|token| {
            cookie(headers, TOKEN_COOKIE).is_some_and(|found| equals(found, token))
        })
    }

    /// Whether a query carries the token, as in the link that `batch-first serve` prints:
    /// `/?token=…`.
    fn has_token_in_query(&self, query: &str) -> bool {
        let given = query.split('&').find_map(|part| part.strip_prefix("token="));
        self.token.as_deref().zip(given).is_some_and(|(token, given)| equals(given, token))
    }
}

/// Compares two strings in a time that does not depend on where they differ.
fn equals(one: &str, other: &str) -> bool {
    let difference =
        one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && difference == 0
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut cookies =
        headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    cookies.find_map(|cookies| {
        cookies.split(';').find_map(|pair| {
            let (found, value) = pair.trim().split_once('=')?;
            (found == name).then_some(value)
        })
    })
}

/// 128 random bits, as 32 hexadecimal digits.
///
/// # Errors
/// The system has no random numbers.
pub fn random_secret() -> Result<String, WebError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| WebError::Random(error.to_string()))?;
    Ok(hex(&bytes))
}

fn is_secret(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The middleware before every route: refuses requests that the policy forbids, and sets the
/// cookies and the security headers.
pub async fn enforce(State(policy): State<AccessPolicy>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let mut response = match policy.check(request.method(), request.headers(), &path) {
        Err((status, reason)) => plain_text(status, reason),
        Ok(())
            if path == "/"
                && policy.has_token_in_query(request.uri().query().unwrap_or_default()) =>
        {
            let mut response = plain_text(StatusCode::SEE_OTHER, "");
            set_header(&mut response, header::LOCATION.as_str(), "/");
            let token = policy.token.as_deref().unwrap_or_default();
            add_cookie(&mut response, TOKEN_COOKIE, token);
            response
        }
        Ok(()) if !policy.has_token(request.headers()) => plain_text(
            StatusCode::UNAUTHORIZED,
            "You need a token: open the link that batch-first serve printed.",
        ),
        Ok(()) => serve_visitor(request, next).await,
    };
    add_security_headers(&mut response);
    response
}

/// Serves an admitted request and identifies its visitor by the cookie.
async fn serve_visitor(mut request: Request, next: Next) -> Response {
    let known =
        cookie(request.headers(), VISITOR_COOKIE).filter(|text| is_secret(text)).map(str::to_owned);
    // Each visit of the front page sets the cookie again, which renews its lifetime.
    let is_front = request.uri().path() == "/";
    let given = if is_front { known.clone().or_else(|| random_secret().ok()) } else { None };
    if let Some(visitor) = known {
        request.extensions_mut().insert(VisitorId(visitor));
    }
    let mut response = next.run(request).await;
    if let Some(visitor) = given {
        add_cookie(&mut response, VISITOR_COOKIE, &visitor);
    }
    response
}

/// Sets the security headers; a content policy that the route has set stays.
fn add_security_headers(response: &mut Response) {
    if !response.headers().contains_key(header::CONTENT_SECURITY_POLICY) {
        set_header(response, "content-security-policy", CONTENT_POLICY);
    }
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        set_header(response, name, value);
    }
}

fn set_header(response: &mut Response, name: &'static str, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

fn add_cookie(response: &mut Response, name: &str, value: &str) {
    // Lax: with Strict, a visitor who follows a link from another site would come without the
    // cookie and get a new id.
    let text = format!("{name}={value}; Path=/; Max-Age={COOKIE_MAX_AGE}; HttpOnly; SameSite=Lax");
    // A token may hold characters that a header cannot; then no cookie is set.
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// A response of plain text.
pub fn plain_text(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    set_header(&mut response, header::CONTENT_TYPE.as_str(), "text/plain; charset=utf-8");
    response
}
