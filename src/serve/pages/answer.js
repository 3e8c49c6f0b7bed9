// Sends requests to the model: a chat conversation, or a text to continue if the model has no chat template.

const kAlternatives = 5;
// The defaults of gpt chat, from kSampling, which the server adds to the script. For other empty settings, the
// server's defaults apply.
const kDefaults = Object.fromEntries(Object.entries(kSampling).filter(([, f]) => f.default !== f.off).map(([name, f]) => [name, f.default]));
const kTextTokens = 200;  // default max_tokens for continuing a text
let answering = null;  // {abort, conversation, message} while a response is in flight

const chats = () => Boolean(chosenModel() && chosenModel().chat_template);

// Returns the defaults and the non-empty settings as numbers. A text that is not a number is sent unchanged,
// and the server reports the error.
function samplingFields() {
  const fields = {...kDefaults};
  for (const name of kSettingNames.filter(n => n !== 'system')) {
    const text = settings[name].trim();
    if (text) fields[name] = Number.isNaN(Number(text)) ? text : Number(text);
  }
  return fields;
}

// Returns the messages of a chat in the format of the API. If the last message is the assistant's, the server
// continues it.
function chatMessages(messages) {
  const list = messages.map(({role, content}) => ({role, content}));
  return settings.system.trim() ? [{role: 'system', content: settings.system}, ...list] : list;
}
const joined = messages => messages.map(m => m.content).join('');

// Returns the context of the next response. The last of `messages` is the response so far, which may be
// empty.
function context(messages) {
  const last = messages[messages.length - 1], used = last.content ? messages : messages.slice(0, -1);
  return chats() ? {messages: chatMessages(used)} : {prompt: joined(used)};
}

// The server limits max_tokens to the room in the context and drops the oldest messages if the context is
// full.
function requestOf(messages) {
  const common = {model: chosenModel().id, ...context(messages), ...samplingFields(), truncation: 'auto', stream: true, stream_options: {include_usage: true}};
  if (chats()) return ['/v1/chat/completions', {...common, logprobs: true, top_logprobs: kAlternatives}];
  return ['/v1/completions', {max_tokens: kTextTokens, ...common, logprobs: kAlternatives}];
}

// Stores the name of the model that wrote a response. If a different model continues the response, both names
// are stored.
function nameAuthor(message, name) {
  const all = message.content && message.model ? message.model.split(', ') : [];
  message.model = all.at(-1) === name ? message.model : [...all, name].join(', ');
}

// Appends the response to the last message, which is the assistant's. Errors after the response has started
// are stored in that message. If no text arrived, `undo` removes the turn.
async function answer(conversation, undo) {
  const message = conversation.messages[conversation.messages.length - 1], abort = new AbortController();
  answering = {abort, conversation, message};
  delete message.problem;
  delete message.note;
  showProblem('');
  message.cut = true;
  if (chosenModel()) nameAuthor(message, chosenModel().id);
  drawMessages();
  const begun = performance.now();
  let usage = null;
  try {
    const [path, body] = requestOf(conversation.messages);
    const response = await ask('POST', path, body, abort.signal);
    usage = await readAnswer(message, response);
    message.note = noteOf(message, usage, (performance.now() - begun) / 1000, leftOut(response));
  } catch (error) {
    takeProblem(message, error);
    if (!message.content && undo) {
      showProblem(message.problem || '');
      undo();
    }
  }
  answering = null;
  if (conversations.includes(conversation)) {  // it may have been deleted in the meantime
    if (conversation.messages.length) keep(conversation); else forgetConversation(conversation);
  }
  drawMessages();
  say(message.problem ? message.problem : `Response: ${message.content}`);
}

// Describes the part of the conversation that no longer fits into the context.
function leftOut(response) {
  const messages = response.headers.get('X-Truncated-Messages'), tokens = response.headers.get('X-Truncated-Tokens');
  if (messages) return `the oldest ${messages} messages no longer fit into the context`;
  return tokens ? `the first ${thousands(tokens)} tokens no longer fit into the context` : '';
}

async function readAnswer(message, response) {
  const tokens = new TokenReader();
  let usage = null, finish = null, completes = false;
  message.tokens = message.tokens || [];
  for await (const event of eventsOf(response)) {
    usage = event.usage || usage;
    const choice = event.choices && event.choices[0];
    if (!choice) continue;
    completes = !choice.delta;
    message.content += (choice.delta ? choice.delta.content : choice.text) || '';
    message.tokens.push(...tokens.read(choice.logprobs));
    finish = choice.finish_reason || finish;
    drawLater(message);
  }
  // In a completion, the last token ends the text and is not part of it.
  if (finish === 'stop' && completes) message.tokens.pop();
  const rest = tokens.rest(), final = message.tokens[message.tokens.length - 1];
  if (rest && final) final[0] += rest;
  message.cut = finish === 'length';
  return usage;
}

function noteOf(message, usage, seconds, forgotten) {
  const parts = [];
  if (usage) parts.push(`${thousands(usage.completion_tokens)} token${usage.completion_tokens === 1 ? '' : 's'}`, `${fix(usage.completion_tokens / Math.max(seconds, 1e-3), 1)} tokens/s`);
  if (message.cut) parts.push('token limit reached');
  if (forgotten) parts.push(forgotten);
  return parts.join(' · ');
}

function takeProblem(message, error) {
  if (error.name === 'AbortError') { message.note = 'stopped'; return; }
  if (error.status === 401) { askForKey(); message.problem = 'The server requires an API key.'; return; }
  if (error.status === 0) serverIsGone();
  message.problem = error instanceof ServerError ? error.message : `Error in this page: ${error.message}`;
}

function send(text) {
  if (answering || !chosenModel()) return;
  const conversation = currentConversation(), before = conversation.messages.slice();
  if (text) conversation.messages.push({role: 'user', content: text});
  if (!conversation.title) conversation.title = text.trim().split('\n')[0].slice(0, 60);
  const last = conversation.messages[conversation.messages.length - 1];
  if (!last) return;
  conversation.messages.push({role: 'assistant', content: ''});
  keep(conversation);
  answer(conversation, () => takeBack(conversation, before, text));
}

// Removes a turn without a response from the conversation. The user's message returns to the text field.
function takeBack(conversation, before, text) {
  conversation.messages = before;
  const last = before[before.length - 1], unanswered = !text && last && last.role === 'user' ? before.pop().content : text;
  if (conversation !== currentConversation() || asked.value) return;
  asked.value = unanswered;
  sizeField();
}

function again(conversation) {
  if (answering) return;
  const last = conversation.messages.length - 1, before = conversation.messages[last];
  conversation.messages[last] = {role: 'assistant', content: ''};
  answer(conversation, () => { conversation.messages[last] = before; });
}

// Continues a response with a different token at `tokenIndex`. The text after this token is removed.
function continueWith(conversation, index, tokenIndex, alternative) {
  if (answering) return;
  const message = conversation.messages[index], place = placesOf(message)[tokenIndex];
  message.content = message.content.slice(0, place.start) + alternative[0];
  message.tokens = [...message.tokens.slice(0, tokenIndex), [alternative[0], alternative[1], message.tokens[tokenIndex][2]]];
  conversation.messages.length = index + 1;
  answer(conversation);
}
