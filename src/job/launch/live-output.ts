import { type DisplaySink, replacingDisplay } from '../../cell/display';
import type { RankEvent } from '../control/messages';
import { GroupedOutput, richParts, sectionsBundle } from './outputs';

/** Time between two redraws while outputs arrive. */
const REDRAW_MS = 100;

/** Shows the grouped outputs of a call while it runs. */
export interface LiveOutput {
  add(event: RankEvent): void;
  /** Draws the text for the last time, then the figures and pictures that text cannot show. */
  finish(): void;
}

/** Writes what ranks print to this process's own streams, each line with its rank: for a script, which has no display. */
export function createPlainOutput(): LiveOutput {
  return {
    add(event) {
      if (event.kind !== 'stream') return;
      process[event.name].write(event.text.replace(/^(?=[\s\S])/gm, `[rank ${event.rank}] `));
    },
    finish: () => undefined,
  };
}

/**
 * Draws into one display and updates it; a call without output makes no display. It does not show errors, because the
 * call throws them.
 */
export function createLiveOutput(display: DisplaySink): LiveOutput {
  const output = new GroupedOutput();
  const show = replacingDisplay(display);
  let drawn: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  const draw = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (output.sections.length === 0) return;
    const bundle = sectionsBundle(output.sections);
    const text = JSON.stringify(bundle);
    if (text === drawn) return;
    show(bundle);
    drawn = text;
  };
  return {
    add(event) {
      if (event.kind === 'error') return;
      output.add(event);
      timer ??= setTimeout(draw, REDRAW_MS);
    },
    finish() {
      draw();
      for (const bundle of richParts(output.sections)) display.display(bundle);
    },
  };
}
