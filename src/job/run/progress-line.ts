import { randomUUID } from 'node:crypto';
import type { DisplaySink } from '../../cell/display';
import { escapeHtml } from '../../figures/escape';

/** Time between two drawings. */
const REDRAW_MS = 100;

/** One line that shows the progress of work. */
export interface ProgressLine {
  show(text: string, done: number, total: number): void;
  /** Replaces the line by a final text. */
  finish(text: string): void;
}

/** Draws into one display and updates it; does nothing without a display. */
export function createProgressLine(display: DisplaySink | undefined): ProgressLine {
  const displayId = `shardlab-line-${randomUUID()}`;
  let isDisplayed = false;
  let drawnAt = -Infinity;
  const draw = (text: string, html: string): void => {
    const bundle = { 'text/html': html, 'text/plain': text };
    if (isDisplayed) display?.update(displayId, bundle);
    else display?.display(bundle, { displayId });
    isDisplayed = true;
    drawnAt = performance.now();
  };
  return {
    show(text, done, total) {
      if (performance.now() - drawnAt < REDRAW_MS) return;
      const bar = `<progress value="${done}" max="${total}" style="width:12em;vertical-align:middle"></progress>`;
      draw(text, `<div>${bar} <code>${escapeHtml(text)}</code></div>`);
    },
    finish: (text) => draw(text, `<div><code>${escapeHtml(text)}</code></div>`),
  };
}
