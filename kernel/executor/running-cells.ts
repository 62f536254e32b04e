import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CellOutput, type MimeBundle, shortened, shortenedBundle, widgets } from '../../src/cell';
import { now, type Seconds } from '../../src/core';
import type { ExecutionId, Outcome, RunCell, RunRanks } from './protocol';

/*
 * [Note: running cells] When a page is loaded again, JupyterLab forgets which cells run, and drops their outputs. So this process
 * keeps the outputs of running cells, and of the last cells that took long. When a page connects, each such cell opens a widget
 * without a view, whose code (running-cell.mjs) finds the cell in JupyterLab's notebook: it shows the outputs so far, marks the cell
 * as running, and adds what follows.
 */

/** Cells that ran for a shorter time are not kept after their end. */
const KEPT_FROM: Seconds = 1;
/** The number of ended cells that are kept. */
const NUM_ENDED = 4;
/** The most outputs of a cell that are kept. */
const MOST_OUTPUTS = 500;

/** An output as notebooks store it; `displayId` names a display that may change. */
type KeptOutput =
  | { readonly output_type: 'stream'; readonly name: string; readonly text: string }
  | {
      readonly output_type: 'display_data' | 'execute_result';
      readonly data: MimeBundle;
      readonly metadata: MimeBundle;
      readonly displayId?: string | undefined;
      readonly execution_count?: number;
    }
  | {
      readonly output_type: 'error';
      readonly ename: string;
      readonly evalue: string;
      readonly traceback: readonly string[];
    };

interface KeptCell {
  readonly request: RunCell | RunRanks;
  readonly start: Seconds;
  readonly outputs: KeptOutputs;
  isOver: boolean;
  /** The widget that tells pages about the cell; undefined until a page connects. */
  widget: ReturnType<typeof widgets.openWidget>;
}

/** The cells that run, and the last cells that took long, with their outputs. [Note: running cells] */
export class RunningCells {
  readonly #cells = new Map<ExecutionId, KeptCell>();

  begin(request: RunCell | RunRanks): void {
    const { id, origin } = request;
    if (origin.cellId === undefined) return;
    // The cell runs again, so what an earlier run has shown is over.
    for (const [earlier, { request }] of this.#cells) {
      if (request.origin.cellId === origin.cellId) this.#forget(earlier);
    }
    const outputs = new KeptOutputs();
    this.#cells.set(id, { request, start: now(), outputs, isOver: false, widget: undefined });
  }

  add(id: ExecutionId, output: CellOutput): void {
    this.#cells.get(id)?.outputs.add(output);
  }

  end(id: ExecutionId, outcome: Outcome): void {
    const cell = this.#cells.get(id);
    if (cell === undefined) return;
    cell.isOver = true;
    cell.outputs.end(outcome, cell.request.cell);
    // A page that shows the cell needs its widget until the cell has ended there too.
    if (now() - cell.start < KEPT_FROM && cell.widget === undefined) this.#forget(id);
    const ended = [...this.#cells].filter(([, { isOver }]) => isOver);
    for (const [oldest] of ended.slice(0, -NUM_ENDED)) this.#forget(oldest);
  }

  /** Tells a page that has connected of the cells. */
  offer(): void {
    for (const cell of this.#cells.values()) {
      if (cell.widget === undefined) open(cell);
    }
  }

  #forget(id: ExecutionId): void {
    this.#cells.get(id)?.widget?.close();
    this.#cells.delete(id);
  }
}

function open(cell: KeptCell): void {
  const { origin, cell: number } = cell.request;
  const widget = widgets.openWidget({
    esm: readFileSync(join(__dirname, 'running-cell.mjs'), 'utf8'),
    state: { ...origin, number },
    heard: ({ does }) => {
      if (does === 'loaded')
        cell.widget?.send({ does: 'outputs', outputs: cell.outputs.all, isOver: cell.isOver });
    },
  });
  cell.widget = widget;
  widget?.set({ id: widget.id });
}

/** The outputs of one cell so far. */
class KeptOutputs {
  #outputs: KeptOutput[] = [];
  #clearsNext = false;
  #numDropped = 0;

  get all(): readonly KeptOutput[] {
    if (this.#numDropped === 0) return this.#outputs;
    const text = `… ${this.#numDropped} earlier outputs are left out here, because the page was loaded again …\n`;
    return [{ output_type: 'stream', name: 'stderr', text }, ...this.#outputs];
  }

  add(output: CellOutput): void {
    if (output.kind === 'clear') {
      if (output.wait) this.#clearsNext = true;
      else this.#outputs = [];
      return;
    }
    if (output.kind === 'update') {
      const { displayId, bundle } = output;
      this.#outputs = this.#outputs.map((kept) =>
        'displayId' in kept && kept.displayId === displayId
          ? { ...kept, data: shortenedBundle(bundle) }
          : kept,
      );
      return;
    }
    if (this.#clearsNext) this.#outputs = [];
    this.#clearsNext = false;
    if (output.kind === 'stream') this.#print(output.name, output.text);
    else {
      const { bundle, metadata, displayId } = output;
      this.#outputs.push({ output_type: 'display_data', data: shortenedBundle(bundle), metadata, displayId });
    }
    if (this.#outputs.length > MOST_OUTPUTS) {
      this.#outputs.shift();
      this.#numDropped++;
    }
  }

  end(outcome: Outcome, number: number): void {
    if (!outcome.ok) {
      const { ename, evalue, traceback } = outcome.error;
      this.#outputs.push({ output_type: 'error', ename, evalue, traceback });
    } else if (outcome.result !== undefined) {
      const data = shortenedBundle(outcome.result);
      this.#outputs.push({ output_type: 'execute_result', data, metadata: {}, execution_count: number });
    }
  }

  #print(name: string, text: string): void {
    const last = this.#outputs.at(-1);
    const joins = last?.output_type === 'stream' && last.name === name;
    if (joins) this.#outputs.pop();
    this.#outputs.push({ output_type: 'stream', name, text: shortened(joins ? last.text + text : text) });
  }
}
