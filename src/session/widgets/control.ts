import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';
import {
  type CallbackOutcome,
  type CellOutput,
  currentDisplay,
  replacingDisplay,
  unbroken,
  widgets,
} from '../../cell';
import { ConfigError, DISPLAY, type DisplayBundle, now, type Seconds } from '../../core';
import { ink } from '../../figures';
import { outputs } from '../../launch';
import { widgetCode } from './page-code';

/** What is special about one kind of controls. */
export interface ControlForm<T> {
  readonly kind: 'slider' | 'select';
  /** The name beside the control; '' if it has none. */
  readonly label: string;
  /** The values of the page's model that do not change. */
  readonly fixed: Readonly<Record<string, unknown>>;
  /** Says which values are possible: '8 to 512, step 8'. */
  readonly range: string;
  /** Writes a value as the page's model has it; undefined if the control cannot have this value. */
  toPage(value: T): unknown;
  /** Reads a value of the page's model; undefined if it is none. */
  fromPage(value: unknown): T | undefined;
  /** Writes a value as text. */
  toText(value: T): string;
}

type Outputs = outputs.SectionPage;

const NO_OUTPUTS: Outputs = { text: '', html: '' };

/**
 * A slider or a select of a notebook: `sl.slider` and `sl.select` make it. It is shown as a widget where the front end has the
 * package anywidget, and elsewhere as its value.
 *
 * [Note: callbacks of widgets] A callback runs as a cell runs, one call after another, and what it shows replaces what its call before
 * has shown. While a call runs, only the newest value waits for the next call, and at most ten calls begin in a second, so that a drag does not
 * flood the kernel.
 */
export class Control<T> {
  readonly #form: ControlForm<T>;
  #value: T;
  #callback: ((value: T) => unknown) | undefined;
  #widget: ReturnType<typeof widgets.openWidget>;
  #outputs = NO_OUTPUTS;
  /** The number of the newest call; outputs of earlier calls that come late are not shown. */
  #call = 0;
  #isDue = false;
  #running: Promise<void> | undefined;

  /** @internal */
  constructor(form: ControlForm<T>, value: T) {
    this.#form = form;
    this.#value = value;
  }

  /** The value that is chosen now. Set it to move the control, which runs the callback. Throws: CONFIG for an impossible value. */
  get value(): T {
    return this.#value;
  }

  set value(value: T) {
    const { kind, range } = this.#form;
    if (this.#form.toPage(value) === undefined)
      throw new ConfigError(`${kind}.value = ${inspect(value)} is not possible; give a value of ${range}`);
    this.#choose(value);
  }

  /**
   * Calls a function with the value when the control is shown, and after each change. What the function prints, shows and returns is
   * shown beneath the control, and replaces what it has shown before; an error is shown there too. A control has one such function.
   * [Note: callbacks of widgets]
   * @example
   * sl.slider({ min: 8, max: 512, step: 8, label: 'gpus' }).onChange((gpus) => sl.plan('llama3-8b', { on: 'H100-80G', gpus }));
   */
  onChange(callback: (value: T) => unknown): this {
    if (typeof callback !== 'function')
      throw new ConfigError(`${this.#form.kind}.onChange takes a function; it got ${inspect(callback)}`);
    this.#callback = callback;
    if (this.#widget !== undefined) this.#request();
    return this;
  }

  async [DISPLAY](): Promise<DisplayBundle> {
    if (this.#widget === undefined) {
      this.#open();
      this.#request();
    }
    const bundle = (): DisplayBundle => ({ ...this.#widget?.bundle, ...this.#stored() });
    const display = currentDisplay();
    if (display === undefined || (await endsWithin(this.#running, SHOWN_AFTER))) {
      await this.#running;
      return bundle();
    }
    const show = replacingDisplay(display, 'shardlab-control');
    show(bundle());
    await this.#running;
    // The stored notebook gets what the call has shown.
    show(bundle());
    return {};
  }

  /** Returns the text that Node shows for the control. */
  [inspect.custom](): string {
    return this.#text();
  }

  #open(): void {
    const { kind, label, fixed } = this.#form;
    const state = {
      kind,
      label,
      ...fixed,
      value: this.#form.toPage(this.#value),
      ...this.#drawn(),
    };
    this.#widget = widgets.openWidget({
      esm: widgetCode(),
      state,
      heard: () => undefined,
      changed: (changes) => {
        const value = 'value' in changes ? this.#form.fromPage(changes.value) : undefined;
        if (value !== undefined) this.#value = value;
        else this.#widget?.set({ value: this.#form.toPage(this.#value) });
        this.#request();
      },
    });
    this.#widget?.set({ id: this.#widget.id });
  }

  #choose(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    this.#widget?.set({ value: this.#form.toPage(value) });
    if (this.#widget !== undefined) this.#request();
  }

  /** Calls the callback with the newest value, after the call that runs now. */
  #request(): void {
    if (this.#callback === undefined) {
      this.#widget?.set(this.#drawn(this.#value));
      return;
    }
    this.#isDue = true;
    this.#running ??= this.#runDue();
  }

  async #runDue(): Promise<void> {
    while (this.#isDue) {
      this.#isDue = false;
      const start = now();
      await this.#run();
      const left = BETWEEN_CALLS - (now() - start);
      if (this.#isDue && left > 0) await delay(left * 1000);
    }
    this.#running = undefined;
  }

  async #run(): Promise<void> {
    const call = ++this.#call;
    const [callback, value] = [this.#callback, this.#value];
    const shown = new outputs.GroupedOutput();
    let outcome: CallbackOutcome | undefined;
    const draw = (): void => {
      const [section] = shown.sections;
      const { result, error } = { result: undefined, error: undefined, ...outcome };
      if (call !== this.#call || (section === undefined && outcome === undefined)) return;
      const parts = { ranks: [], title: '', shown: section?.shown ?? [], result, error };
      unbroken(() => {
        this.#outputs = outputs.wholeSection(parts);
        this.#widget?.set(outcome === undefined ? this.#drawn() : this.#drawn(value));
      });
    };
    // What a quick call shows comes as one change.
    const drawing = widgets.limited(draw, BETWEEN_CHANGES, now());
    const heard = (output: CellOutput): void => {
      shown.add(eventOf(output));
      drawing.request();
    };
    outcome = await widgets.runCallback(() => callback?.(value), heard);
    // An interrupt also ends the wait of a newer value.
    if (isInterrupted(outcome)) this.#isDue = false;
    drawing.now();
  }

  /** The values of the page's model that follow the outputs; `answered` is the value of a call that has ended. */
  #drawn(answered?: T) {
    const drawn = { shown: this.#outputs.html, stored: this.#stored() };
    return answered === undefined ? drawn : { ...drawn, answered: this.#form.toPage(answered) };
  }

  /** Returns the control for places without widgets: its name, its value, and what its callback has shown. */
  #stored(): DisplayBundle {
    const { kind, label, range } = this.#form;
    const value = this.#form.toText(this.#value);
    const { text, html } = this.#outputs;
    const name = label === '' ? kind : label;
    const facts = `<b>${ink.escapeHtml(name)}</b> <code>${ink.escapeHtml(value)}</code>`;
    const kinds = `<span style="opacity:.65">${kind}, ${ink.escapeHtml(range)}</span>`;
    return {
      'text/html': `<div>${facts} ${kinds}</div>${html}`,
      'text/plain': [this.#text(), text].filter((line) => line !== '').join('\n'),
    };
  }

  #text(): string {
    const { kind, label, range } = this.#form;
    return `${kind} ${label}${label === '' ? '' : ' '}= ${this.#form.toText(this.#value)} (${range})`;
  }
}

/** A page gets at most one change in this time while a callback runs. */
const BETWEEN_CHANGES: Seconds = 0.2;
/** A control whose first call takes longer than this is shown before the call has ended. */
const SHOWN_AFTER: Seconds = 1;
/** Calls of a callback begin at least this far apart. */
const BETWEEN_CALLS: Seconds = 0.1;

/** Whether work ends within a time. */
async function endsWithin(work: Promise<void> | undefined, seconds: Seconds): Promise<boolean> {
  const limit = new AbortController();
  const late = delay(seconds * 1000, false, { signal: limit.signal }).catch(() => false);
  const isInTime = await Promise.race([Promise.resolve(work).then(() => true), late]);
  limit.abort();
  return isInTime;
}

function eventOf(output: CellOutput): Parameters<outputs.GroupedOutput['add']>[0] {
  const place = { rank: 0, cell: undefined };
  if (output.kind === 'stream' || output.kind === 'clear') return { ...output, ...place };
  const { kind, bundle, displayId } = output;
  return kind === 'display'
    ? { kind, bundle, displayId, ...place }
    : { kind, bundle, displayId: displayId ?? '', ...place };
}

function isInterrupted(outcome: CallbackOutcome): boolean {
  return !outcome.ok && outcome.error.ename === 'ShardlabError[INTERRUPTED]';
}
