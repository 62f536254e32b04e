import { join, sep } from 'node:path';

/** The folder of the library's compiled code. */
const LIBRARY = join(__dirname, '..', '..') + sep;

/** The file and the line at the end of a line of a stack. */
const FRAME = /(?:\(|^\s+at (?:async )?)([^()]*):(\d+):\d+\)?$/;

/** Returns whether a line of a stack is the user's, neither this library's nor a package's. */
function isOfUser(frame: string): boolean {
  return !/node_modules|node:|<anonymous>$/.test(frame) && !frame.includes(LIBRARY);
}

/** Returns the user's line that runs now, in words: 'In[3], line 7'; '' if none does. */
export function userLine(stack = stackNow()): string {
  const [, file = '', line = ''] = FRAME.exec(stack.find(isOfUser) ?? '') ?? [];
  if (file === '') return '';
  const [, part] = /^job\.train (\w+)$/.exec(file) ?? [];
  if (part !== undefined) return `job.train's ${part}, line ${line} of the function`;
  return /^In\[\d+\]$/.test(file) ? `${file}, line ${line}` : `${file}:${line}`;
}

/** Whether the user's code itself calls tf.customGrad, neither this library nor an operation of tfjs. */
export function isUsersGradient(stack = stackNow()): boolean {
  const at = stack.findIndex((frame) => frame.includes('tfjs-core'));
  const last = stack.findIndex((frame, i) => i > at && !frame.includes('tfjs-core'));
  // Only the function that tf.customGrad returns is between the engine and its caller.
  return last - at === 1 && isOfUser(stack[last] ?? '');
}

function stackNow(): readonly string[] {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 60;
  const { stack = '' } = new Error('here');
  Error.stackTraceLimit = stackTraceLimit;
  return stack.split('\n').slice(1);
}
