import { currentDisplay, replacingDisplay } from '../../cell';
import type { Why } from '../../launch';

const NOTHING = { 'text/plain': '' } as const;

/**
 * Returns a function that shows in the running cell who waits for whom while ranks hang. The note is updated in place, and is gone
 * when the ranks go on. Without a display, one line on stderr says it.
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
    if (show === undefined && currentDisplay() === undefined) {
      if (!isSaid) process.stderr.write(`${text}\n`);
      isSaid = true;
      return;
    }
    show ??= replacingDisplay(currentDisplay(), 'shardlab-hang');
    show({ 'text/plain': text });
  };
}

const ADVICE =
  'Nothing has changed for some seconds: if this is not what you want, interrupt the cell; the variables of the ranks stay.';
