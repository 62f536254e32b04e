import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock, formatBytes, now, type Seconds } from '../core';
import { ink } from '../figures';
import { currentDisplay, type DisplaySink, replacingDisplay } from './display';
import type { MimeBundle } from './mime';

/*
 * [Note: progress] Work that takes longer than two seconds shows one line: the work's name, the part that is done, and the
 * remaining time at the same speed. A notebook shows the line as one display; without a notebook the line goes to stderr. At the
 * end the line is removed or replaced. Work inside such work shows no line, so there is one line at a time.
 */

/** Nothing is shown for work that ends within this time. */
const SHOWN_AFTER: Seconds = 2;
/** Time between two drawings of a line. */
const REDRAW: Seconds = 0.25;
/** Time between two lines of a log, which cannot be redrawn. */
const LOG_LINE: Seconds = 10;

/** Reports how much of the work is done. `workName` replaces the name of the work. */
export type ShowProgress = (done: number, total: number, workName?: string) => void;

interface RankPart {
  readonly done: number;
  readonly total: number;
}

/** A clock that also calls a function at intervals, so that a line also changes while no progress is reported. */
export interface ProgressClock extends Clock {
  /** Calls `tick` every `seconds`; the returned function stops the calls. */
  every(seconds: Seconds, tick: () => void): () => void;
}

/** The place that shows progress, and the clock that measures its time. Tests give their own place and clock. */
export interface ProgressPlace {
  /** The display that shows the line. Default: the process's display. */
  readonly sink?: DisplaySink | undefined;
  /** The terminal that is used if there is no display. Default: this process's stderr. */
  readonly terminal?: Terminal | undefined;
  readonly clock?: ProgressClock | undefined;
  /** A line that is used in place of a display. */
  readonly line?: Line | undefined;
}

/** The stream to which lines are written if there is no notebook. */
export interface Terminal extends Clock {
  /** Whether a line can be redrawn. */
  readonly isTerminal: boolean;
  /** Width of a line in characters; undefined if the width is unlimited. */
  readonly columns?: number | undefined;
  write(text: string): void;
  /** Calls `clean` before Ctrl-C ends the process; the returned function undoes this. */
  onInterrupt(clean: () => void): () => void;
}

const HOST: ProgressClock = {
  now,
  every(seconds, tick) {
    const timer = setInterval(tick, seconds * 1e3).unref();
    return () => clearInterval(timer);
  },
};

/** Whether the current code runs within work that shows its own progress. */
const WITHIN = new AsyncLocalStorage<true>();

/** Whether an enclosing `withProgress` shows the progress, so that this code shows none. */
export function isWithinProgress(): boolean {
  return WITHIN.getStore() === true;
}

/** Shows the progress of asynchronous work that itself shows nothing. The line is removed at the end, also after an error. */
export async function withProgress<T>(
  workName: string,
  unit: string,
  work: (show: ShowProgress) => Promise<T>,
  place: ProgressPlace = {},
): Promise<T> {
  const progress = new Progress(workName, unit, place);
  try {
    return await WITHIN.run(true, () => work(progress.show));
  } finally {
    progress.end();
  }
}

/** Shows the progress of work that blocks the thread. The line is removed at the end, also after an error or an interrupt. */
export function withProgressSync<T>(
  workName: string,
  unit: string,
  work: (show: ShowProgress) => T,
  place: ProgressPlace = {},
): T {
  const progress = new Progress(workName, unit, {
    ...place,
    clock: { ...(place.clock ?? HOST), every: never },
  });
  // V8 skips `finally` when an interrupt terminates the work; this immediate callback then ends the line.
  const after = setImmediate(() => progress.end());
  try {
    return WITHIN.run(true, () => work(progress.show));
  } finally {
    clearImmediate(after);
    progress.end();
  }
}

/** The line of one piece of work. [Note: progress] */
export class Progress {
  readonly #unit: string;
  readonly #clock: ProgressClock;
  readonly #line: Line;
  readonly #start: Seconds;
  readonly #stop: () => void;
  /** The progress of each rank's part of the work, by rank. */
  readonly #parts = new Map<number, RankPart>();
  #workName: string;
  #done = 0;
  #total = 0;
  #drawnAt = Number.NEGATIVE_INFINITY;

  /** `unit` is a plural ('ranks'), or 'bytes'. */
  constructor(workName: string, unit: string, place: ProgressPlace = {}) {
    const { clock = HOST } = place;
    this.#workName = workName;
    this.#unit = unit;
    this.#clock = clock;
    this.#line = lineAt(place);
    this.#start = clock.now();
    this.#stop = clock.every(1, () => this.#draw());
  }

  /** Reports how much is done. Code may call this in a loop, because a line is drawn at most four times per second. */
  readonly show: ShowProgress = (done, total, workName = this.#workName) => {
    this.#done = done;
    this.#total = total;
    this.#workName = workName;
    this.#draw();
  };

  /** Reports the progress of one rank's part; the line shows the sum over ranks. */
  readonly showOf = (rank: number, part: RankPart): void => {
    this.#parts.set(rank, part);
    const parts = [...this.#parts.values()];
    const sum = (key: keyof RankPart): number => parts.reduce((all, part) => all + part[key], 0);
    this.show(sum('done'), sum('total'));
  };

  /** Ends the line if it was shown: removes it, or replaces it by a text. */
  end(text = ''): void {
    this.#stop();
    if (this.#drawnAt > this.#start) this.#line.end(text);
    this.#drawnAt = Number.NEGATIVE_INFINITY;
  }

  /** Replaces the line by a text that says that the work is done. A notebook shows this text even if there was no line. */
  finish(text: string): void {
    this.#stop();
    if (this.#line.isNotebook || this.#drawnAt > this.#start) this.#line.end(text);
    this.#drawnAt = Number.NEGATIVE_INFINITY;
  }

  #draw(): void {
    const time = this.#clock.now();
    if (time - this.#start < SHOWN_AFTER || time - this.#drawnAt < REDRAW) return;
    this.#drawnAt = time;
    this.#line.show(this.#text(time - this.#start), this.#done, this.#total);
  }

  #text(seconds: Seconds): string {
    const [done, total] = [this.#done, this.#total];
    if (total === 0) return `${this.#workName}: ${durationText(seconds)}`;
    const amounts =
      this.#unit === 'bytes'
        ? `${formatBytes(done)} of ${formatBytes(total)}`
        : `${done.toLocaleString('en-US')} of ${total.toLocaleString('en-US')} ${this.#unit}`;
    const left = done === 0 ? '' : `, ${timeLeft((seconds * (total - done)) / done)}`;
    return `${this.#workName}: ${amounts}, ${Math.floor((100 * done) / total)}%${left}`;
  }
}

/** Writes the remaining time: 'about 12 s left'. */
export function timeLeft(seconds: Seconds): string {
  return `about ${durationText(seconds)} left`;
}

function durationText(seconds: Seconds): string {
  if (seconds < 99.5) return `${Math.ceil(seconds)} s`;
  if (seconds < 5970) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** Returns a progress bar beside a text, above a picture. If `total` is 0, the total is unknown. */
export function progressBundle(text: string, done: number, total: number, picture = ''): MimeBundle {
  const value = total === 0 ? '' : `value="${done}" max="${total}" `;
  const bar = `<progress ${value}style="width:12em;vertical-align:middle"></progress>`;
  return {
    'text/html': `<div>${bar} <code>${ink.escapeHtml(text)}</code></div>${picture}`,
    'text/plain': text,
  };
}

function textBundle(text: string): MimeBundle {
  if (text === '') return { 'text/html': '', 'text/plain': '' };
  return { 'text/html': `<div><code>${ink.escapeHtml(text)}</code></div>`, 'text/plain': text };
}

/** A line in a notebook or in a terminal. */
interface Line {
  readonly isNotebook: boolean;
  show(text: string, done: number, total: number): void;
  /** Replaces the line by a text; '' removes it. */
  end(last: string): void;
}

function lineAt({ line, terminal, sink: ownSink }: ProgressPlace): Line {
  if (isWithinProgress()) return { isNotebook: false, show: () => undefined, end: () => undefined };
  if (line !== undefined) return line;
  const sink = ownSink ?? (terminal === undefined ? currentDisplay() : undefined);
  if (sink !== undefined) {
    const draw = replacingDisplay(sink);
    return {
      isNotebook: true,
      show: (...state) => draw(progressBundle(...state)),
      end: (last) => draw(textBundle(last)),
    };
  }
  const { show, close } = terminalLine(terminal ?? processTerminal());
  return {
    isNotebook: false,
    show,
    end(last) {
      show(last);
      close();
    },
  };
}

/** Returns a sink whose displays become one line of a terminal. `close` leaves the last state visible, also in a log. */
export function terminalSink(terminal: Terminal): DisplaySink & { close(): void } {
  const { show, close } = terminalLine(terminal);
  // Only the first line is shown, because the numbers of a figure are below it.
  const draw = (bundle: MimeBundle): void => show(String(bundle['text/plain'] ?? '').split('\n', 1)[0] ?? '');
  return {
    display: draw,
    update: (_, bundle) => draw(bundle),
    clear: () => undefined,
    close: () => close({ isKept: true }),
  };
}

/** A line that a terminal redraws; a log gets a new line every ten seconds. */
function terminalLine({ isTerminal, columns = Number.POSITIVE_INFINITY, write, ...terminal }: Terminal) {
  let [line, logged] = ['', ''];
  let loggedAt = terminal.now();
  let restore = (): void => undefined;
  let isDrawn = false;
  const log = (): void => {
    if (line !== '' && line !== logged) write(`${line}\n`);
    [logged, loggedAt] = [line, terminal.now()];
  };
  return {
    show(text: string): void {
      line = text;
      if (!isTerminal) {
        if (terminal.now() - loggedAt >= LOG_LINE) log();
        return;
      }
      if (!isDrawn) restore = terminal.onInterrupt(() => write('\r\u001b[K'));
      isDrawn = true;
      // The cursor returns to the start of the line, so that other output replaces it.
      write(`\r${line.slice(0, columns - 1)}\u001b[K\r`);
    },
    /** Ends the line. A log gets the last state if it already has an earlier state, or if `isKept` is true. */
    close({ isKept = false } = {}): void {
      restore();
      if (isTerminal && isDrawn && line !== '') write(`${line}\u001b[K\n`);
      if (!isTerminal && (isKept || logged !== '')) log();
    },
  };
}

/** Returns this process's stderr. */
export function processTerminal(): Terminal {
  const { stderr } = process;
  return {
    now,
    isTerminal: stderr.isTTY === true,
    columns: stderr.columns,
    write: (text) => void stderr.write(text),
    onInterrupt(clean) {
      const handle = (): void => {
        process.off('SIGINT', handle);
        clean();
        if (process.listenerCount('SIGINT') === 0) process.kill(process.pid, 'SIGINT');
      };
      process.on('SIGINT', handle);
      return () => void process.off('SIGINT', handle);
    },
  };
}

function never(): () => void {
  return () => undefined;
}
