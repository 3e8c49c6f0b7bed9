// Renders Markdown as elements. Text from a model only becomes text nodes, so no HTML in it ever reaches the
// page.

const kDeepest = 6;  // maximum nesting of lists and quotes; deeper levels are shown as text

// Parses `code`, **strong**, *emphasis* and [links](https://...) in a line. A plain URL becomes a link too.
const kInline = /(`+)([^`]|[^`][\s\S]{0,2000}?[^`])\1(?!`)|\*\*(?=\S)([^*]+?)\*\*|__(?=\S)([^_]+?)__(?!\w)|\*(?=\S)([^*\n]+?)\*|(?<!\w)_(?=\S)([^_\n]+?)_(?!\w)|\[([^\]\n]{1,500})\]\((\S{1,2000}?)\)|(https?:\/\/[^\s<>"')\]]+)/g;

function safeAddress(text) {
  try {
    const address = new URL(text);
    return address.protocol === 'http:' || address.protocol === 'https:' ? address.href : null;
  } catch (e) { return null; }
}

function link(address, ...content) {
  return make('a', {href: address, rel: 'noopener noreferrer nofollow', target: '_blank'}, ...content);
}

function inlineNodes(text) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(kInline)) {
    const [all, , code, strong1, strong2, em1, em2, label, address, bare] = found;
    let node = null;
    if (code !== undefined) node = make('code', {text: code.replace(/^ (.*) $/s, '$1')});
    else if (strong1 || strong2) node = make('strong', null, ...inlineNodes(strong1 || strong2));
    else if (em1 || em2) node = make('em', null, ...inlineNodes(em1 || em2));
    else {
      const safe = safeAddress(address || bare);
      if (safe) node = label === undefined ? link(safe, bare) : link(safe, label);
    }
    if (!node) continue;
    nodes.push(text.slice(from, found.index), node);
    from = found.index + all.length;
  }
  nodes.push(text.slice(from));
  return nodes.filter(n => n !== '');
}

const kFence = /^( {0,3})(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/, kItem = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const kHeading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/, kRule = /^ {0,3}([-*_])(\s*\1){2,}\s*$/, kTableRule = /^\s*\|?(\s*:?-+:?\s*\|)+\s*(:?-+:?)?\s*\|?\s*$/;

function codeBlock(lines, language) {
  const text = lines.join('\n');
  const copy = make('button', {type: 'button', class: 'small', text: 'copy', 'aria-label': 'Copy the code', onclick: () => copyText(text)});
  return make('div', {class: 'code'}, make('div', {class: 'code-top'}, make('span', {class: 'soft', text: language || 'code'}), copy),
    make('pre', {tabindex: 0}, make('code', {text})));
}

const cellsOf = line => line.trim().replace(/^\||\|$/g, '').split('|').map(cell => cell.trim());
function table(head, rows) {
  const row = (line, tag) => make('tr', null, ...cellsOf(line).map(cell => make(tag, null, ...inlineNodes(cell))));
  return make('div', {class: 'scroll', tabindex: 0}, make('table', null, make('thead', null, row(head, 'th')), make('tbody', null, ...rows.map(line => row(line, 'td')))));
}

// Parses blocks from lines. Each method for a block returns the number of lines that it used and appends to
// `out`.
class BlockReader {
  constructor(lines, depth) {
    this.lines = lines;
    this.depth = depth;
    this.out = [];
  }

  nodes() {
    for (let i = 0; i < this.lines.length;) i += this.block(i);
    return this.out;
  }

  block(i) {
    const line = this.lines[i], heading = kHeading.exec(line);
    if (!line.trim()) return 1;
    if (kFence.test(line)) return this.fence(i);
    if (heading) {
      this.out.push(make('h' + Math.min(6, heading[1].length + 2), null, ...inlineNodes(heading[2])));
      return 1;
    }
    if (kRule.test(line)) { this.out.push(make('hr')); return 1; }
    if (this.depth < kDeepest && /^ {0,3}>/.test(line)) return this.quote(i);
    if (this.depth < kDeepest && kItem.test(line)) return this.list(i);
    if (line.includes('|') && kTableRule.test(this.lines[i + 1] || '')) return this.table(i);
    return this.paragraph(i);
  }

  // A code fence that is not closed extends to the last line, because the response may still be in flight.
  fence(i) {
    const [, indent, mark, language] = kFence.exec(this.lines[i]);
    const closes = line => line.trim().length >= mark.length && line.trim() === mark[0].repeat(line.trim().length);
    let end = i + 1;
    while (end < this.lines.length && !closes(this.lines[end])) ++end;
    const inner = this.lines.slice(i + 1, end).map(line => line.startsWith(indent) ? line.slice(indent.length) : line);
    this.out.push(codeBlock(inner, language));
    return end + 1 - i;
  }

  quote(i) {
    let end = i;
    while (end < this.lines.length && /^ {0,3}>/.test(this.lines[end])) ++end;
    const inner = this.lines.slice(i, end).map(line => line.replace(/^ {0,3}> ?/, ''));
    this.out.push(make('blockquote', null, ...new BlockReader(inner, this.depth + 1).nodes()));
    return end - i;
  }

  // Parses a list of items with the same indentation. Lines with more indentation belong to the item above.
  list(i) {
    const [, indent, mark] = kItem.exec(this.lines[i]), ordered = /\d/.test(mark), items = [];
    let end = i;
    for (; end < this.lines.length; ++end) {
      const item = kItem.exec(this.lines[end]), line = this.lines[end];
      if (item && item[1].length <= indent.length) {
        if (/\d/.test(item[2]) !== ordered) break;
        items.push([item[3]]);
      } else if (!line.trim() ? /^\s+\S/.test(this.lines[end + 1] || '') || this.isItem(end + 1, indent, ordered) : /^\s/.test(line)) {
        items[items.length - 1].push(line.slice(Math.min(line.search(/\S|$/), indent.length + 2)));
      } else break;
    }
    const start = ordered ? parseInt(mark, 10) : 1;
    this.out.push(make(ordered ? 'ol' : 'ul', {start: start === 1 ? null : start}, ...items.map(lines => make('li', null, ...this.itemNodes(lines)))));
    return end - i;
  }
  isItem(i, indent, ordered) {
    const item = kItem.exec(this.lines[i] || '');
    return Boolean(item) && item[1].length === indent.length && /\d/.test(item[2]) === ordered;
  }
  itemNodes(lines) {
    const nodes = new BlockReader(lines, this.depth + 1).nodes();
    return nodes.length && nodes[0].tagName === 'P' ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
  }

  table(i) {
    let end = i + 2;
    while (end < this.lines.length && this.lines[end].includes('|')) ++end;
    this.out.push(table(this.lines[i], this.lines.slice(i + 2, end)));
    return end - i;
  }

  paragraph(i) {
    let end = i + 1;
    const ends = line => !line.trim() || kFence.test(line) || kHeading.test(line) || kRule.test(line) || (this.depth < kDeepest && (/^ {0,3}>/.test(line) || kItem.test(line)));
    while (end < this.lines.length && !ends(this.lines[end])) ++end;
    const node = make('p');
    this.lines.slice(i, end).forEach((line, n) => {
      if (n) node.append(make('br'));
      node.append(...inlineNodes(line));
    });
    this.out.push(node);
    return end - i;
  }
}

const markdownNodes = text => new BlockReader(text.replace(/\r\n?/g, '\n').split('\n'), 0).nodes();
