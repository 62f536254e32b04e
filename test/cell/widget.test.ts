import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openWidget, registerComms, type WidgetComm } from '../../src/cell/widget';

test('a widget speaks the protocol of Jupyter, and a page that is loaded again gets the present state', () => {
  const heard: unknown[] = [];
  const sent: unknown[] = [];
  const opened: unknown[] = [];
  const options = {
    esm: 'export default {}',
    state: { count: 1 },
    heard: (message: unknown) => heard.push(message),
  };
  assert.equal(openWidget(options), undefined, 'a process without channels');
  const comm: WidgetComm = {
    id: 'c1',
    send: (data) => void sent.push(data),
    close: () => void sent.push('close'),
    onMessage: () => {},
    onClose: () => {},
  };
  const control = { ...comm, id: 'c0' };
  registerComms({
    call: () => assert.fail('no callback'),
    register: (target, open) => {
      assert.equal(target, 'jupyter.widget.control');
      open(control);
    },
    open: (target, { state }, metadata) => {
      const { _model_module, _view_module, _esm, count } = state as Record<string, unknown>; // the state is an object
      opened.push([target, _model_module, _view_module, _esm, count, metadata]);
      return comm;
    },
  });
  const widget = openWidget(options) ?? assert.fail('no widget');
  assert.deepEqual(opened, [
    ['jupyter.widget', 'anywidget', 'anywidget', 'export default {}', 1, { version: '2.1.0' }],
  ]);
  assert.deepEqual(widget.bundle, {
    'application/vnd.jupyter.widget-view+json': { version_major: 2, version_minor: 1, model_id: 'c1' },
  });
  comm.onMessage({ method: 'custom', content: { does: 'next' } }, []);
  assert.deepEqual(heard, [{ does: 'next' }]);
  widget.set({ count: 2 });
  assert.deepEqual(sent.pop(), { method: 'update', state: { count: 2 }, buffer_paths: [] });
  assert.equal(widget.isRestored, false);
  comm.onMessage({ method: 'request_state' }, []);
  assert.equal(widget.isRestored, true);
  const { state } = sent.pop() as { state: Record<string, unknown> }; // what the line above sent
  assert.deepEqual([state.count, state._esm], [2, 'export default {}']);
  control.onMessage({ method: 'request_states' }, []);
  const { states } = sent.pop() as {
    states: Record<string, { model_name: string; state: Record<string, unknown> }>;
  }; // as above
  assert.deepEqual(Object.keys(states), ['c1']);
  assert.deepEqual([states.c1?.model_name, states.c1?.state.count], ['AnyModel', 2]);
  comm.onClose({});
  widget.set({ count: 3 });
  widget.close();
  assert.deepEqual(sent, [], 'a closed channel gets no message');
  control.onMessage({ method: 'request_states' }, []);
  assert.deepEqual(sent.pop(), { method: 'update_states', states: {}, buffer_paths: [] });
});
