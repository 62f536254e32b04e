import assert from 'node:assert/strict';
import type { JupyterClient } from './jupyter-client';

/** A model with the vocabulary of 'tiny'. */
const SMALL = "{ kind: 'gpt', layers: 2, dim: 16, heads: 2, vocab: 2048, seq: 64, tied: true }";

/** Executes an example in a kernel, with fewer steps, and asserts that it ends without an error. */
export async function runExample(client: JupyterClient, written: string): Promise<void> {
  const code = shortened(written);
  const { reply } = await client.execute(code);
  const { status, ename, evalue } = reply.content;
  assert.equal(status, 'ok', `${code}\n${ename}: ${evalue}`);
}

/**
 * The same calls with a tenth of their steps and tokens, or a hundredth of hundreds, and on a smaller model: the time of an
 * example is the time of its steps.
 */
export function shortened(code: string): string {
  const counts =
    /\b(steps?\(|steps: |maxSteps: |warmupSteps: |numIter: |evalSteps: |saveSteps: |tokens: |step % |step < )(\d+?)00?\b/g;
  return code
    .replace(counts, (_, before, fewer) => `${before}${fewer}`)
    .replace(/(?<=train\(\{ (\.\.\.config, )?model: )'tiny'/g, SMALL);
}
