// A client of the server's API with readable error messages.

// An error response of the server. Status 0 means that the server cannot be reached.
class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let key = stored(session, kKey) || '';
function useKey(text) {
  key = text;
  store(session, kKey, text);
}

// Sends a request and returns the response. Throws ServerError, or AbortError if the request was aborted.
async function ask(method, path, body, signal) {
  const headers = {};
  if (key) headers.Authorization = 'Bearer ' + key;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: 'no-store'});
  } catch (error) {
    throw error.name === 'AbortError' ? error : new ServerError(0, 'The server does not respond.');
  }
  if (response.ok) return response;
  const error = parsed(await response.text().catch(() => ''));
  throw new ServerError(response.status, error && error.error && typeof error.error.message === 'string' ? error.error.message : `The server responded with status ${response.status}.`);
}

// Yields the objects of an event stream until "[DONE]". Throws on an error event and if the stream ends
// early.
async function* eventsOf(response) {
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      const {value, done} = await reader.read().catch(error => { throw error.name === 'AbortError' ? error : new ServerError(0, 'The connection was lost during the response.'); });
      if (done) throw new ServerError(0, 'The connection was lost during the response.');
      text += decoder.decode(value, {stream: true});
      for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
        const data = text.slice(0, end).replace(/^data: ?/, '');
        if (data === '[DONE]') return;
        const event = parsed(data);
        if (event && event.error) throw new ServerError(event.error.code === 'timeout' ? 504 : 500, event.error.message);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// A completion names a token by its id if its text is already the name of another token.
const isNamedById = name => /^token_id:\d+$/.test(name);
// Returns the bytes of a token from its name. A token that does not consist of whole characters is named by
// its bytes: "bytes:\xe2\x82".
function bytesOfName(name) {
  if (!/^bytes:(\\x[0-9a-f]{2})+$/.test(name)) return new TextEncoder().encode(name);
  return Uint8Array.from(name.slice(8).split('\\x'), hex => parseInt(hex, 16));
}
function wholeText(bytes) {
  try { return new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(bytes); } catch (e) { return null; }
}

// Reads the tokens of a response as they arrive, from both formats of log-probabilities. A character that
// consists of several tokens belongs to the last of them.
class TokenReader {
  constructor() { this.decoder = new TextDecoder('utf-8', {ignoreBOM: true}); }

  token(bytes, logprob, alternatives) {
    return [this.decoder.decode(bytes, {stream: true}), logprob, alternatives.sort((a, b) => b[1] - a[1])];
  }
  // Returns a replacement character for an incomplete character at the end, as in the server's text.
  rest() { return this.decoder.decode(); }
  read(logprobs) {
    if (!logprobs) return [];
    if (logprobs.content) {
      return logprobs.content.map(t => this.token(Uint8Array.from(t.bytes), t.logprob, t.top_logprobs.map(a => [wholeText(Uint8Array.from(a.bytes)), a.logprob])));
    }
    return logprobs.tokens.map((name, i) => this.token(bytesOfName(name), logprobs.token_logprobs[i],
      Object.entries(logprobs.top_logprobs[i] || {}).map(([other, p]) => isNamedById(other) ? [null, p, other] : [wholeText(bytesOfName(other)), p])));
  }
}
