import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { describe, it, test } from 'node:test';
import { parseConnection } from '../../kernel/front/connection';
import { History } from '../../kernel/front/history';
import { kernelInfo } from '../../kernel/front/replies';
import { SeenSignatures, Wire } from '../../kernel/front/wire';
import { kernelSpec } from '../../src/cell/kernelspec';
import { findInstallation } from '../../src/core/installation';

const PORTS = { shell_port: 1, control_port: 2, stdin_port: 3, iopub_port: 4, hb_port: 5 };

function signed(key: string, parts: readonly string[]): Buffer[] {
  const hmac = createHmac('sha256', key);
  for (const part of parts) hmac.update(part);
  return ['<IDS|MSG>', hmac.digest('hex'), ...parts].map((frame) => Buffer.from(frame));
}

describe('the wire', () => {
  it('decodes what it encodes, with identities and buffers', () => {
    const wire = new Wire('secret');
    const buffers = [Buffer.from([0, 255])];
    const frames = wire.encode({ type: 'comm_msg', content: { a: 'ü' }, identities: ['who'], buffers });
    const message = wire.decode(frames.map((frame) => Buffer.from(frame)));
    assert.deepEqual(message.content, { a: 'ü' });
    assert.deepEqual(message.buffers, buffers);
    assert.equal(message.identities[0]?.toString(), 'who');
  });

  it("refuses messages with another key's signature, and frames that are not a message", () => {
    const frames = new Wire('other').encode({ type: 'x', content: {} }).map((frame) => Buffer.from(frame));
    assert.throws(() => new Wire('secret').decode(frames), /not signed with this kernel's key/);
    assert.throws(() => new Wire('secret').decode([Buffer.from('hello')]), /lacks frames/);
  });

  it('refuses signed parts that do not follow the protocol, and names the part', () => {
    const header = '{"msg_id":"1","msg_type":"x"}';
    for (const [parts, why] of [
      [['null', '{}', '{}', '{}'], /header is not a JSON object/],
      [['{"msg_id":"1"}', '{}', '{}', '{}'], /header lacks the text msg_type/],
      [['{"msg_id":1,"msg_type":"x"}', '{}', '{}', '{}'], /header lacks the text msg_id/],
      [[header, '{}', '[]', '{}'], /metadata is not a JSON object/],
      [[header, '{}', '{}', 'hell'], /content is not JSON/],
    ] as const) {
      assert.throws(() => new Wire('secret').decode(signed('secret', parts)), why);
    }
    assert.equal(new Wire('secret').decode(signed('secret', [header, '?', '{}', '{}'])).header.msg_type, 'x');
  });

  it('accepts a message once, even if it comes again on another channel', () => {
    const wire = new Wire('secret');
    const frames = wire.encode({ type: 'x', content: {} }).map((frame) => Buffer.from(frame));
    wire.decode(frames);
    assert.throws(() => wire.decode(frames), /its signature was received before/);
    assert.throws(() => wire.decode([Buffer.from('other'), ...frames]), /its signature was received before/);
  });
});

describe('the list of seen signatures', () => {
  it('holds up to a fixed number, and then forgets the oldest tenth', () => {
    const seen = new SeenSignatures(20);
    for (let i = 0; i < 21; i++) assert.ok(seen.note(String(i)));
    assert.ok(!seen.note('2'));
    assert.ok(!seen.note('20'));
    assert.ok(seen.note('1'));
  });
});

describe('a connection file', () => {
  it('gives addresses for tcp and ipc, and keys for encryption', () => {
    const tcp = parseConnection({ ...PORTS, ip: '127.0.0.1', transport: 'tcp', key: 'k' }, 'f');
    assert.equal(tcp.endpoints.iopub, 'tcp://127.0.0.1:4');
    assert.equal(tcp.curve, undefined);
    const keys = { curve_publickey: 'p', curve_secretkey: 's' };
    const ipc = parseConnection({ ...PORTS, ip: 'kernel', transport: 'ipc', ...keys }, 'f');
    assert.equal(ipc.endpoints.hb, 'ipc://kernel-5');
    assert.deepEqual(ipc.curve, { publicKey: 'p', secretKey: 's' });
  });

  it('without a port or with an unknown signature scheme is refused, and the error names it', () => {
    assert.throws(
      () => parseConnection({ shell_port: 1 }, 'file.json'),
      /file\.json needs a number in control_port/,
    );
    assert.throws(() => parseConnection({ ...PORTS, signature_scheme: 'md5' }, 'f'), /only hmac-sha256/);
  });
});

test('kernelspec, kernel_info_reply and notebooks name the language in the same way', () => {
  const { language } = kernelSpec({ node: 'node', main: 'main.js' });
  assert.equal(language, 'typescript');
  const {
    name,
    pygments_lexer: lexer,
    mimetype,
    file_extension: extension,
  } = Object(kernelInfo(findInstallation()).language_info);
  assert.deepEqual([name, lexer, mimetype, extension], [language, language, 'text/typescript', '.ts']);
});

describe('the history', () => {
  it('finds entries by tail, range and pattern', async () => {
    const history = new History();
    for (const [i, source] of ['a = 1', 'b = 2', 'a = 1'].entries()) history.add(i + 1, source);
    assert.deepEqual(await history.find({ hist_access_type: 'tail', n: 1 }), [[0, 3, 'a = 1']]);
    assert.deepEqual(await history.find({ hist_access_type: 'range', start: 2, stop: 3 }), [[0, 2, 'b = 2']]);
    assert.equal((await history.find({ hist_access_type: 'search', pattern: 'a*', unique: true })).length, 1);
    assert.deepEqual(await history.find({ hist_access_type: 'tail', n: 1, output: true }), [
      [0, 3, ['a = 1', null]],
    ]);
  });
});
