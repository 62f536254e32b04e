import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Script } from 'node:vm';
import { findCallSite } from '../../../src/wire/dist/call-site';

test('a cell is found below many frames of other code, with its line as it was written', () => {
  const deep = (depth: number): unknown =>
    depth === 0 ? findCallSite((_, { line }) => ({ line: line + 100, column: 1 })) : deep(depth - 1);
  const cell = new Script('(find) => find()', { filename: 'In[7]', lineOffset: 11 }).runInThisContext();
  assert.deepEqual(
    cell(() => deep(30)),
    { cell: 7, line: 112, text: 'In[7]:112' },
  );
});

test('errors are formatted as before, also if an interrupt left the hook behind', () => {
  const { prepareStackTrace, stackTraceLimit } = Error;
  const before = (new Error('before').stack ?? '').split('\n')[0];
  const hooks: unknown[] = [];
  const property = { configurable: true, writable: true };
  try {
    Object.defineProperty(Error, 'prepareStackTrace', {
      configurable: true,
      get: () => hooks.at(-1),
      set: (hook: unknown) => void hooks.push(hook),
    });
    findCallSite();
    // The hook during the search for the call site.
    const [left] = hooks;
    Object.defineProperty(Error, 'prepareStackTrace', { ...property, value: left });
    assert.equal(typeof left, 'function');
    const stack = new Error('before').stack ?? '';
    assert.equal(stack.split('\n')[0], before);
    assert.match(stack, /\n {4}at .*call-site\.test\.js/);
  } finally {
    Object.defineProperty(Error, 'prepareStackTrace', { ...property, value: prepareStackTrace });
  }
  assert.equal(Error.stackTraceLimit, stackTraceLimit);
});
