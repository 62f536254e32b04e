import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { KERNEL_LANGUAGE, shortened, shownTraceback } from '../../src/cell';
import { type JsonObject, PROTOCOL_VERSION } from './wire';

/** Returns the content of kernel_info_reply. */
export function kernelInfo(installation: string): JsonObject {
  const version = packageVersion(installation);
  const typescript = packageVersion(dirname(require.resolve('typescript/package.json')));
  return {
    status: 'ok',
    protocol_version: PROTOCOL_VERSION,
    implementation: 'shardlab',
    implementation_version: version,
    banner: `shardlab ${version}: TypeScript ${typescript} on Node ${process.version}`,
    language_info: {
      name: KERNEL_LANGUAGE,
      version: typescript,
      mimetype: 'text/typescript',
      file_extension: '.ts',
      pygments_lexer: 'typescript',
      codemirror_mode: { name: 'javascript', typescript: true },
      nbconvert_exporter: 'script',
    },
    supported_features: ['kernel subshells', 'debugger'],
    help_links: [{ text: 'TypeScript', url: 'https://www.typescriptlang.org/docs/' }],
    debugger: true,
  };
}

/** Returns the content of a reply that reports an error. */
export function errorReply(error: {
  ename: string;
  evalue: string;
  traceback: readonly string[];
}): JsonObject {
  const { ename, evalue } = error;
  return {
    status: 'error',
    ename,
    evalue: shortened(evalue),
    traceback: shownTraceback(error, process.env).map((line) => shortened(line)),
  };
}

/** Describes any thrown value in the protocol's fields `ename`, `evalue` and `traceback`. */
export function describeFailure(thrown: unknown): { ename: string; evalue: string; traceback: string[] } {
  if (!(thrown instanceof Error))
    return { ename: 'Error', evalue: String(thrown), traceback: [String(thrown)] };
  const { name: ename, message: evalue } = thrown;
  return { ename, evalue, traceback: [`${ename}: ${evalue}`] };
}

function packageVersion(folder: string): string {
  const manifest: unknown = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return typeof manifest === 'object' && manifest !== null && 'version' in manifest
    ? String(manifest.version)
    : '';
}
