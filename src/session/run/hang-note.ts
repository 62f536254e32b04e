import { currentDisplay, replacingDisplay } from '../../cell';
import { ink, runFigures } from '../../figures';
import type { Why } from '../../launch';

const NOTHING = { 'text/plain': '', 'text/html': '' } as const;

const ADVICE = "If this is not what you want, interrupt the cell; the ranks' variables stay.";

/**
 * Returns a function that shows in the running cell who waits for whom while ranks hang. The note is updated in place, and is gone
 * when the ranks go on. Without a display, stderr has the text once.
 */
export function showHangs(): (why: Why | undefined) => void {
  let show: ReturnType<typeof replacingDisplay> | undefined;
  let isSaid = false;
  return (why) => {
    if (why === undefined) {
      show?.(NOTHING);
      show = undefined;
      isSaid = false;
      return;
    }
    const text = `${why.text}\n${ADVICE}`;
    const sink = currentDisplay();
    if (show === undefined && sink === undefined) {
      if (!isSaid) process.stderr.write(`${text}\n`);
      isSaid = true;
      return;
    }
    show ??= replacingDisplay(sink, 'shardlab-hang');
    const lines = text.split('\n').map((line) => `<div>${ink.escapeHtml(line)}</div>`);
    show({ 'text/plain': text, 'text/html': `${lines.join('')}${runFigures.hang(why.ranks).toHtml()}` });
  };
}
