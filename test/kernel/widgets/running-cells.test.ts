import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RunCell } from '../../../kernel/executor/protocol';
import { RunningCells } from '../../../kernel/executor/running-cells';
import type { CellOutput } from '../../../src/cell';
import { registerComms, type WidgetComm } from '../../../src/cell/widget';

/** A page's view of the widgets that the process opens: their states, and what they send. */
function connectPage() {
  const comms: { readonly comm: WidgetComm; readonly state: Record<string, unknown> }[] = [];
  const sent: Record<string, unknown>[] = [];
  registerComms({
    call: () => assert.fail('no callback'),
    register: () => undefined,
    open: (_, { state }) => {
      const comm: WidgetComm = {
        id: `comm-${comms.length}`,
        send: (data) => void sent.push({ ...data }),
        close: () => void sent.push({ method: 'close' }),
        onMessage: () => undefined,
        onClose: () => undefined,
      };
      comms.push({ comm, state: { ...Object(state) } });
      return comm;
    },
  });
  return { comms, sent };
}

function request(id: number, cellId: string | undefined): RunCell {
  const origin = { requestId: `request-${id}`, code: 'await 1', cellId };
  return { type: 'run', id, cell: id, inSubshell: false, js: '', allowStdin: false, origin };
}

function print(text: string): CellOutput {
  return { kind: 'stream', name: 'stdout', text };
}

test('a page that connects gets the outputs of a running cell as the cell holds them then', () => {
  const { comms, sent } = connectPage();
  const cells = new RunningCells();
  cells.begin(request(1, 'a'));
  cells.begin(request(2, undefined));
  cells.add(1, print('one\n'));
  cells.add(1, print('two\n'));
  const display = { bundle: { 'text/plain': 'first' }, metadata: {}, displayId: 'd' };
  cells.add(1, { kind: 'display', ...display });
  cells.add(1, { kind: 'update', ...display, bundle: { 'text/plain': 'last' } });
  cells.offer();
  cells.offer();
  assert.equal(comms.length, 1, 'a cell without a name is not offered, and each cell once');
  const { _esm, requestId, cellId, number } = comms[0]?.state ?? {};
  assert.deepEqual([requestId, cellId, number], ['request-1', 'a', 1]);
  assert.match(String(_esm), /export default \{ initialize/);
  comms[0]?.comm.onMessage({ method: 'custom', content: { does: 'loaded' } }, []);
  const { outputs, isOver } = Object(sent.at(-1)?.content);
  assert.equal(isOver, false);
  assert.deepEqual(outputs, [
    { output_type: 'stream', name: 'stdout', text: 'one\ntwo\n' },
    { output_type: 'display_data', data: { 'text/plain': 'last' }, metadata: {}, displayId: 'd' },
  ]);
  cells.add(1, { kind: 'clear', wait: true });
  cells.add(1, print('three\n'));
  comms[0]?.comm.onMessage({ method: 'custom', content: { does: 'loaded' } }, []);
  assert.deepEqual(Object(sent.at(-1)?.content).outputs, [
    { output_type: 'stream', name: 'stdout', text: 'three\n' },
  ]);
});

test('a cell that ends quickly, or runs again, is no longer offered', () => {
  const { comms, sent } = connectPage();
  const cells = new RunningCells();
  cells.begin(request(1, 'a'));
  cells.end(1, { ok: true, result: undefined });
  cells.offer();
  assert.equal(comms.length, 0);
  cells.begin(request(2, 'b'));
  cells.offer();
  cells.begin(request(3, 'b'));
  assert.deepEqual(sent.at(-1), { method: 'close' });
  cells.offer();
  assert.deepEqual(
    comms.map(({ state }) => state.number),
    [2, 3],
  );
});
