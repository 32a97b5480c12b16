//! Who may come in: requests from other sites, for other hosts (DNS rebinding), without the token
//! or with another method than GET and HEAD are refused before anything else sees them. Nothing
//! here is changed by a plain request; whatever changes something goes over the web socket.

use std::{net::IpAddr, sync::Arc};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};

use crate::WebError;

/// Cookie that tells visitors apart; whoever has it sees these games.
const VISITOR: &str = "batch-first-visitor";
/// Cookie that holds the token.
const TOKEN: &str = "batch-first-token";
/// Seconds that a browser keeps a cookie: 400 days, the most that browsers allow.
const KEEP: u32 = 34_560_000;

/// Scripts, styles and pictures of our own only. Pieces are pictures inside a style sheet.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'";

/// A report is a whole page with its styles inside; it may not run anything. Whatever serves one
/// says so.
pub const REPORT_POLICY: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";

/// Who is let in.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Without one everybody who reaches the server.
    token: Option<Arc<str>>,
    /// Host names that lead here, besides `localhost` and addresses.
    names: Arc<[String]>,
}

/// The visitor of a request, known by a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor(pub String);

impl Guard {
    /// `names`: host names under which the server is reached, besides `localhost` and plain
    /// addresses.
    #[must_use]
    pub fn new(token: Option<String>, names: Vec<String>) -> Self {
        Self { token: token.map(Arc::from), names: names.into() }
    }

    /// A name is only believed if it was announced: a hostile page may give its own name this
    /// machine's address.
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
            return Err((StatusCode::METHOD_NOT_ALLOWED, "Only GET is answered here."));
        }
        let host = text(headers, header::HOST.as_str());
        if !host.is_some_and(|host| self.is_own_host(host)) {
            return Err((
                StatusCode::MISDIRECTED_REQUEST,
                "This host name does not lead here. If it should: batch-first serve --name NAME",
            ));
        }
        let origin = text(headers, header::ORIGIN.as_str());
        let is_own = |origin: &str| {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            authority
                .zip(host)
                .is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
        };
        let is_foreign = origin.is_some_and(|origin| !is_own(origin))
            || (path != "/" && text(headers, "sec-fetch-site") == Some("cross-site"));
        // Browsers always say where a web socket comes from.
        if is_foreign || (path == "/socket" && origin.is_none()) {
            return Err((StatusCode::FORBIDDEN, "Other sites may not ask here."));
        }
        Ok(())
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        self.token
            .as_deref()
            .is_none_or(|token| cookie(headers, TOKEN).is_some_and(|found| same(found, token)))
    }

    /// The token of a link, as `batch-first serve` prints it: `/?token=…`.
    fn opens(&self, query: &str) -> bool {
        let given = query.split('&').find_map(|part| part.strip_prefix("token="));
        self.token.as_deref().zip(given).is_some_and(|(token, given)| same(given, token))
    }
}

/// Equal? Takes as long wherever the difference is.
fn same(one: &str, other: &str) -> bool {
    let difference =
        one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && difference == 0
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
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

/// 128 random bits, as hexadecimal digits.
///
/// # Errors
/// The system has none to give.
pub fn secret() -> Result<String, WebError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| WebError::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn is_secret(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Stands before every route.
pub async fn stand(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let is_front = path == "/";
    let mut response = match guard.check(request.method(), request.headers(), &path) {
        Err((status, why)) => plain(status, why),
        Ok(()) if is_front && guard.opens(request.uri().query().unwrap_or_default()) => {
            let mut response = plain(StatusCode::SEE_OTHER, "");
            set(&mut response, header::LOCATION.as_str(), "/");
            let token = guard.token.as_deref().unwrap_or_default();
            add_cookie(&mut response, TOKEN, token);
            response
        }
        Ok(()) if !guard.has_token(request.headers()) => plain(
            StatusCode::UNAUTHORIZED,
            "A token is needed: open the link that `batch-first serve` printed.",
        ),
        Ok(()) => {
            let known = cookie(request.headers(), VISITOR)
                .filter(|text| is_secret(text))
                .map(str::to_owned);
            // Given at the first visit and again at every other one: whoever comes back keeps what
            // is theirs.
            let given = if is_front { known.clone().or_else(|| secret().ok()) } else { None };
            if let Some(visitor) = known {
                request.extensions_mut().insert(Visitor(visitor));
            }
            let mut response = next.run(request).await;
            if let Some(visitor) = given {
                add_cookie(&mut response, VISITOR, &visitor);
            }
            response
        }
    };
    if !response.headers().contains_key(header::CONTENT_SECURITY_POLICY) {
        set(&mut response, "content-security-policy", CONTENT_POLICY);
    }
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        set(&mut response, name, value);
    }
    response
}

fn set(response: &mut Response, name: &'static str, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

fn add_cookie(response: &mut Response, name: &str, value: &str) {
    // Lax: with Strict, whoever follows a link from elsewhere would come without a cookie and get a
    // fresh one over it.
    let text = format!("{name}={value}; Path=/; Max-Age={KEEP}; HttpOnly; SameSite=Lax");
    // A token from the command line may hold what a header cannot; then there is no cookie.
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// A short answer in words.
pub fn plain(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    set(&mut response, header::CONTENT_TYPE.as_str(), "text/plain; charset=utf-8");
    response
}
