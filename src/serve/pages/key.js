// Asks for an API key if the server requires one.

const field = id => document.getElementById(id);

function askForKey() {
  if (field('key').open) return;
  field('key-state').textContent = key ? 'The server rejected this key.' : '';
  field('key-text').value = '';
  field('key').showModal();
}

function startKey(then) {
  field('key').addEventListener('close', () => {
    if (!field('key-text').value) return;
    useKey(field('key-text').value);
    field('key-text').value = '';
    then();
  });
}
