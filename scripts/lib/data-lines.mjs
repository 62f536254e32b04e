import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { notebookFiles } from './notebook-inputs.mjs';
import { filesBelow, root } from './places.mjs';
import { StepError } from './step.mjs';

/** Maximum number of lines of test data and stored notebooks together. */
const MOST_LINES = 40_000;

/** Counts lines of test data (files in test/ that are not code) and of stored notebooks. Throws if the sum is above the limit. */
export function checkDataLines(say) {
  const data = filesBelow(join(root, 'test')).filter((file) => !/\.(ts|py|safetensors)$/.test(file));
  const [ofData, ofNotebooks] = [linesOf(data), linesOf(notebookFiles())];
  const text = `${ofData} lines of test data, ${ofNotebooks} of notebooks`;
  if (ofData + ofNotebooks <= MOST_LINES) return say(text);
  throw new StepError(
    `${text}: at most ${MOST_LINES} together`,
    'store arrays on one line each, and figures as pictures',
  );
}

const linesOf = (files) =>
  files.reduce((sum, file) => sum + readFileSync(file, 'utf8').split('\n').length - 1, 0);
