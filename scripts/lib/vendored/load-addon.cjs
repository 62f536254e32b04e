const { existsSync } = require('node:fs');
const { createRequire } = require('node:module');
const { dirname, join } = require('node:path');

const VERSION = require('../package.json').version;
const platform = `${process.platform}-${process.arch}`;
const addon = join(__dirname, '..', 'addons', `${platform}.node`);

/** shardlab's folder, beside which the user may have installed zeromq; in the clone, the whole zeromq is in this folder. */
const shardlab = join(__dirname, ...Array(4).fill('..'));

Object.defineProperty(exports, '__esModule', { value: true });
exports.default = load();

/** Loads this platform's addon, or on other platforms the addon of the zeromq that the user has installed. */
function load() {
  const reasons = [];
  if (existsSync(addon)) {
    try {
      return require(addon);
    } catch (error) {
      reasons.push(error.message);
    }
  }
  try {
    const index = createRequire(join(shardlab, 'index.js')).resolve('zeromq');
    return require(join(dirname(index), 'load-addon.js')).default;
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') reasons.push(error.message);
  }
  throw new Error(
    `shardlab contains ZeroMQ for Linux (glibc) and macOS, each on x64 and arm64. This is ${platform}` +
      `${reasons.length > 0 ? ` (${reasons.join('; ')})` : ''}. In the folder where shardlab is installed, ` +
      `run: npm install zeromq@${VERSION}. On Windows, use WSL 2 instead`,
  );
}
