// The player of a walk in a page. player.ts joins this file and page-parts.mjs to one module, which outputs of notebooks contain and
// which widgets load as the code of an anywidget; so the files are JavaScript that runs unchanged. All words and colours come in the view (player-view.ts).

// `live` is what a player knows of ranks that still walk: { isLive, isBusy, error, names } (LiveState in live-player.ts).

import { button, icon, inUnit, make, swatches, unpacked, wholeState } from './page-parts.mjs';

/** The text of page.css, which player.ts writes here. */
const STYLE = '/* style */';

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const speeds = [0.5, 1, 2, 4, 8];

/** JupyterLab shall leave keys to a player that has the focus, except with Control, Alt or Meta. Its own listener is on the document. */
const leaveKeys = (event) => {
  const host = event.composedPath().find(({ className }) => className === 'shardlab-player');
  const isOurs = !(event.ctrlKey || event.altKey || event.metaKey);
  host?.toggleAttribute('data-lm-suppress-shortcuts', isOurs);
};
addEventListener('keydown', leaveKeys, true);

/** One player: draws a view into an element, and moves between its rounds. */
class Player {
  constructor(parent, { view, round, live, send = () => {} }) {
    this.packed = view;
    this.view = unpacked(view);
    this.round = round ?? view.rounds.length - 1;
    this.live = live ?? { isLive: false, isBusy: false, error: '', names: [] };
    this.send = send;
    this.timer = undefined;
    this.host = make('div', { class: 'shardlab-player' });
    this.root = this.host.attachShadow({ mode: 'open' });
    this.section = make('section', { class: 'player', tabindex: '0', role: 'group' });
    this.root.append(make('style', {}, STYLE), this.section);
    this.section.addEventListener('keydown', (event) => this.pressed(event));
    parent.replaceChildren(this.host);
    this.build();
  }

  /** Builds the elements of a view; `show` fills them. */
  build() {
    const { view } = this;
    this.section.setAttribute('aria-label', `Walk: ${view.title}`);
    this.controls();
    this.lanes = make('div', { class: 'lanes', role: 'img' });
    this.kinds = make('div', { class: 'legend' });
    this.says = make('ul', { 'aria-live': 'polite' });
    this.panels = {
      memory: make('section', { class: 'memory' }),
      says: make('section', { class: 'says' }, make('h4', {}, 'Ranks'), this.says),
      tree: make('section', { class: 'tree' }),
      source: make('section', { class: 'source' }),
    };
    this.section.replaceChildren(
      make('h3', {}, view.title),
      this.bar,
      this.ranksBar,
      this.lanes,
      this.kinds,
      make('div', { class: 'panels' }, ...Object.values(this.panels)),
    );
    this.draw();
  }

  controls() {
    this.slider = make('input', { type: 'range', min: '1', step: '1', 'aria-label': 'round' });
    this.slider.addEventListener('input', () => this.goTo(Number(this.slider.value) - 1));
    this.output = make('output', { 'aria-hidden': 'true' });
    this.speed = make(
      'select',
      { 'aria-label': 'rounds per second' },
      ...speeds.map((speed) =>
        make('option', { value: `${speed}`, selected: speed === 2 }, `${speed} per s`),
      ),
    );
    this.speed.addEventListener('change', () => this.timer !== undefined && this.play());
    const go = (at) => () => this.goTo(at());
    this.buttons = {
      first: button(
        'first',
        'first round',
        go(() => 0),
      ),
      previous: button(
        'previous',
        'previous round',
        go(() => this.round - 1),
      ),
      play: button('play', 'play', () => (this.timer === undefined ? this.play() : this.pause())),
      next: button('next', 'next round', () => this.step()),
      last: button(
        'last',
        'last round',
        go(() => this.view.rounds.length - 1),
      ),
    };
    this.bar = make(
      'div',
      { class: 'bar' },
      ...Object.values(this.buttons),
      this.slider,
      this.output,
      make('label', {}, 'speed', this.speed),
    );
    this.until = make(
      'select',
      { 'aria-label': 'name of a point' },
      ...this.live.names.map((name) => make('option', {}, name)),
    );
    this.status = make('span', { class: 'status', role: 'status' });
    this.requests = [
      button('step', 'next event', () => this.request({ does: 'next' })),
      make('label', {}, 'until', this.until),
      button('until', 'go', () => this.request({ does: 'until', text: this.until.value })),
      button('live', 'back to live', () => this.request({ does: 'live' })),
    ];
    this.ranksBar = make('div', { class: 'bar ranks' }, ...this.requests, this.status);
  }

  /** Draws what depends on the view, not on the round. */
  draw() {
    const { view } = this;
    const count = view.rounds.length;
    this.lanes.style.setProperty('--rounds', `${Math.max(1, count)}`);
    this.lanes.style.setProperty('--gap', count > 120 ? '0px' : '1px');
    const lane = (reached, rank) => {
      const cells = view.rounds.map((positions, round) =>
        this.cell(reached, positions[rank], `rank ${rank}, round ${round + 1}`),
      );
      return make('div', { class: 'lane' }, make('b', {}, `rank ${rank}`), ...cells);
    };
    this.lanes.setAttribute('aria-label', 'Points: a row per rank, a column per round');
    this.now = make('span', { class: 'now' });
    this.lanes.replaceChildren(...view.points.map(lane), this.now);
    this.lanes.onclick = (event) => {
      const { left } = this.lanes.getBoundingClientRect();
      const { width } = this.now.getBoundingClientRect();
      const at = Math.floor((event.clientX - left) / Math.max(1, width - 2));
      if (at >= 0 && at < this.view.rounds.length) this.goTo(at);
    };
    this.kinds.replaceChildren(...swatches([...view.kinds, view.waiting]));
    this.memory();
    this.tree();
    this.slider.max = `${Math.max(1, count)}`;
    this.show();
  }

  cell(reached, position, where) {
    const point = reached[position.numReached - 1];
    const cell = make('i');
    if (point === undefined || position.state === 'ended') return cell;
    const isWaiting = position.state === 'waiting';
    cell.style.background = isWaiting ? this.view.waiting.css : this.view.kinds[point.kind].css;
    cell.style.backgroundClip = 'padding-box';
    cell.title = `${where}: ${isWaiting ? 'waits in ' : ''}${this.view.texts[point.label]}`;
    return cell;
  }

  memory() {
    const { view } = this;
    this.rows = view.points.map((_, rank) => {
      const bar = make('div', { role: 'img' });
      return { bar, row: make('div', { class: 'row' }, make('b', {}, `rank ${rank}`), bar) };
    });
    this.change = make('div', { class: 'note change' });
    const most = `Dashed: the most of the walk, ${inUnit(view.most.bytes, view.scale)} on rank ${view.most.rank}.`;
    this.panels.memory.replaceChildren(
      make('h4', {}, 'Memory by category'),
      ...this.rows.map(({ row }) => row),
      make('div', { class: 'note' }, most),
      this.change,
      make('div', { class: 'legend' }, ...swatches(view.causes)),
    );
  }

  tree() {
    const { view } = this;
    const ranks = view.points.map((_, rank) => rank);
    const head = make(
      'tr',
      {},
      make('th', { scope: 'col' }, 'rank'),
      ...ranks.map((rank) => make('th', { scope: 'col' }, `${rank}`)),
    );
    this.cells = view.modules.map(({ label, name, depth }) => {
      const title = make('th', { scope: 'row', title: name }, label);
      title.style.paddingLeft = `${depth * 14}px`;
      const cells = ranks.map(() => make('td'));
      return { cells, row: make('tr', {}, title, ...cells) };
    });
    const table = make(
      'table',
      {},
      make('thead', {}, head),
      make('tbody', {}, ...this.cells.map(({ row }) => row)),
    );
    this.scroll = make('div', { class: 'scroll' }, table);
    const marks = make('div', { class: 'legend' }, make('span', {}, '● stands here'));
    if (view.whole !== null)
      marks.append(
        ...swatches([
          { name: 'whole parameters', css: view.marks.whole },
          { name: 'a shard', css: view.marks.shard },
        ]),
      );
    this.panels.tree.replaceChildren(make('h4', {}, 'Modules'), this.scroll, marks);
  }

  /** Fills in what depends on the round. */
  show() {
    const { view, round } = this;
    const count = view.rounds.length;
    const positions = view.rounds[round] ?? [];
    this.slider.value = `${round + 1}`;
    this.slider.setAttribute('aria-valuetext', `round ${round + 1} of ${count}`);
    this.output.textContent = count === 0 ? 'no round yet' : `round ${round + 1} of ${count}`;
    this.now.style.setProperty('--at', `${Math.max(0, round)}`);
    this.now.hidden = count === 0;
    const points = positions.map(({ numReached }, rank) => view.points[rank][numReached - 1]);
    for (const [rank, point] of points.entries()) this.fillBar(this.rows[rank].bar, point, rank);
    this.change.textContent = this.changes(points);
    this.says.setAttribute('aria-live', this.timer === undefined ? 'polite' : 'off');
    this.says.replaceChildren(...positions.map((position, rank) => this.sentence(position, rank)));
    this.fillTree(positions, points);
    this.source(points);
    this.enable();
  }

  sentence({ sentence, numReached, state }, rank) {
    const before = this.view.rounds[this.round - 1]?.[rank];
    const isMoved = before === undefined || before.numReached !== numReached || before.state !== state;
    return make('li', { class: isMoved ? 'moved' : '' }, `rank ${rank} ${this.view.texts[sentence]}`);
  }

  fillBar(bar, point, rank) {
    const { view } = this;
    const bytes = point?.bytes ?? [];
    const parts = bytes.flatMap((size, index) => {
      if (size === 0) return [];
      const { name, css, ink } = view.causes[index];
      const segment = make('i', {
        title: `${name}: ${inUnit(size, view.scale)}`,
        'data-cause': name,
        'data-bytes': `${size}`,
      });
      segment.style.width = `${(size / view.most.bytes) * 100}%`;
      segment.style.background = css;
      segment.style.color = ink;
      return [segment];
    });
    const total = inUnit(sum(bytes), view.scale);
    bar.setAttribute(
      'aria-label',
      `rank ${rank} holds ${total}: ${parts.map(({ title }) => title).join(', ')}`,
    );
    bar.replaceChildren(...parts, make('em', {}, total), make('span', { class: 'most' }));
  }

  /** Says what the step before this round changed, by the first rank that shows a change. */
  changes(points) {
    const { view, round } = this;
    const before = view.rounds[round - 1];
    for (const [rank, point] of points.entries()) {
      const old = before && view.points[rank][before[rank].numReached - 1];
      if (!point || !old) continue;
      const parts = view.causes.flatMap(({ name }, index) => {
        const more = point.bytes[index] - old.bytes[index];
        return more === 0 ? [] : [`${name} ${more > 0 ? '+' : ''}${inUnit(more)}`];
      });
      if (parts.length > 0) return `Since the round before, rank ${rank}: ${parts.join(', ')}.`;
    }
    return before === undefined ? '' : 'No change since the round before.';
  }

  fillTree(positions, points) {
    const { view } = this;
    let first;
    this.cells.forEach(({ cells, row }, index) => {
      let isHere = false;
      cells.forEach((cell, rank) => {
        const position = positions[rank];
        const stands =
          position !== undefined && position.state !== 'ended' && points[rank]?.rows.includes(index) === true;
        isHere ||= stands;
        const state = wholeState(view, rank, index, position);
        const mark = make('i', { class: state });
        if (state !== '') mark.style.background = view.marks[state];
        cell.title = [
          state === '' ? '' : state === 'whole' ? 'whole parameters' : 'a shard',
          stands ? 'stands here' : '',
        ]
          .filter(Boolean)
          .join(', ');
        cell.replaceChildren(...(state === '' ? [] : [mark]), make('u', {}, stands ? '●' : ''));
      });
      row.className = isHere ? 'here' : '';
      if (isHere) first ??= row;
    });
    if (first === undefined || this.scroll.clientHeight === 0) return;
    const top = first.offsetTop - 40;
    const isSeen =
      top >= this.scroll.scrollTop &&
      first.offsetTop + 20 <= this.scroll.scrollTop + this.scroll.clientHeight;
    if (!isSeen) this.scroll.scrollTop = Math.max(0, top);
  }

  source(points) {
    const { view } = this;
    const ranksAt = new Map();
    points.forEach((point, rank) => {
      if (point && point.place !== null)
        ranksAt.set(point.place, [...(ranksAt.get(point.place) ?? []), rank]);
    });
    const parts = [...ranksAt].slice(0, 3).flatMap(([index, ranks]) => {
      const { title, lines, at } = view.places[index];
      const who = ranks.length === view.points.length ? '' : ` (rank ${ranks.join(', ')})`;
      const marked = lines.map((line, number) =>
        make('code', number === at ? { class: 'at', 'aria-current': 'true' } : {}, line === '' ? ' ' : line),
      );
      return [
        make('p', { class: 'place' }, `${title}${who}`),
        make('div', { class: 'lines' }, make('div', {}, ...marked)),
      ];
    });
    const none = make('p', { class: 'place' }, 'No line is known for this round.');
    this.panels.source.hidden = view.places.length === 0;
    this.panels.source.replaceChildren(make('h4', {}, 'Source'), ...(parts.length === 0 ? [none] : parts));
  }

  /** Enables the buttons that do something now. A button that had the focus and is disabled gives it to the player, which keeps the keys. */
  enable() {
    const { buttons, round, view, live } = this;
    const focused = this.root.activeElement;
    const [isFirst, isLast] = [round <= 0, round >= view.rounds.length - 1];
    buttons.first.disabled = isFirst;
    buttons.previous.disabled = isFirst;
    buttons.next.disabled = isLast && !live.isLive;
    buttons.last.disabled = isLast;
    buttons.play.disabled = view.rounds.length < 2 && !live.isLive;
    const does = this.timer === undefined ? 'play' : 'pause';
    buttons.play.replaceChildren(icon(does));
    buttons.play.setAttribute('aria-label', does);
    buttons.play.title = does;
    this.ranksBar.hidden = !live.isLive && live.error === '';
    for (const request of [...this.requests, this.until]) request.disabled = live.isBusy || !live.isLive;
    this.status.textContent =
      live.error !== '' ? live.error : live.isBusy ? 'the ranks move …' : 'the ranks are halted';
    this.status.classList.toggle('failed', live.error !== '');
    if (focused?.disabled) this.section.focus({ preventScroll: true });
  }

  /** Does what a person asks for; a player that plays halts for it. */
  goTo(round) {
    this.halt();
    this.go(round);
  }

  step() {
    this.halt();
    this.next();
  }

  request(request) {
    this.halt();
    this.ask(request);
  }

  go(round) {
    const last = this.view.rounds.length - 1;
    this.round = Math.max(0, Math.min(last, round));
    this.show();
  }

  /** Shows the next round; at the last one, asks ranks that still walk for one more. */
  next() {
    if (this.round < this.view.rounds.length - 1) this.go(this.round + 1);
    else if (this.live.isLive) this.ask({ does: 'next' });
    else this.pause();
  }

  ask(request) {
    if (this.live.isBusy || !this.live.isLive) return;
    this.go(this.view.rounds.length - 1);
    this.live = { ...this.live, isBusy: true, error: '' };
    this.enable();
    this.send(request);
  }

  play() {
    clearInterval(this.timer);
    if (this.round >= this.view.rounds.length - 1 && !this.live.isLive) this.round = 0;
    this.timer = setInterval(() => this.next(), 1000 / Number(this.speed.value));
    this.show();
  }

  halt() {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  pause() {
    this.halt();
    this.show();
  }

  /** Shows a walk that has more rounds than before; a player at the last round follows. */
  update(view, live) {
    const isAtEnd = this.round >= this.view.rounds.length - 1;
    const isNew = view !== this.packed;
    this.packed = view;
    this.view = unpacked(view);
    this.live = live;
    if (isAtEnd) this.round = view.rounds.length - 1;
    if (isNew) this.draw();
    else this.enable();
    if (live.error !== '') this.pause();
  }

  pressed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const { tagName } = event.target;
    // Sliders and lists have these keys themselves, and a button has the space bar.
    if (tagName === 'SELECT' || (tagName === 'INPUT' && event.key !== ' ')) return;
    if (tagName === 'BUTTON' && event.key === ' ') return;
    const act = {
      ArrowRight: () => this.step(),
      ArrowLeft: () => this.goTo(this.round - 1),
      Home: () => this.goTo(0),
      End: () => this.goTo(this.view.rounds.length - 1),
      ' ': () => (this.timer === undefined ? this.play() : this.pause()),
    }[event.key];
    if (act === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}

/** Starts the players with this id in the page that no script has started yet. */
export function startPlayers(id) {
  for (const element of document.querySelectorAll(`[data-shardlab-player="${id}"]:not([data-started])`)) {
    const data = element.querySelector('script[type="application/json"]');
    if (data === null) continue;
    element.setAttribute('data-started', '');
    new Player(element, JSON.parse(data.textContent));
  }
}

/** The code of an anywidget: shows `view` and `live` of the model, and sends the buttons' requests. */
function render({ model, el }) {
  const player = new Player(el, {
    view: model.get('view'),
    live: model.get('live'),
    send: (request) => model.send(request),
  });
  const changed = () => player.update(model.get('view'), model.get('live'));
  model.on('change:view', changed);
  model.on('change:live', changed);
  return () => {
    player.pause();
    model.off('change:view', changed);
    model.off('change:live', changed);
  };
}

// biome-ignore lint/style/noDefaultExport: anywidget reads the default export.
export default { render };
