// Required before a server (node -r ./loopback.cjs). Whatever address the server
// asks for, it gets a free port of the loopback interface, and its address is the
// first line on standard output. The process ends when its standard input does,
// so that it never outlives who started it.
"use strict";
const net = require("node:net");

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  const callback = args.findLast((arg) => typeof arg === "function");
  const told = () => process.stdout.write(`http://127.0.0.1:${this.address().port}\n`);
  this.once("listening", told);
  return listen.call(this, { host: "127.0.0.1", port: 0 }, callback);
};

process.stdin.resume().once("end", () => process.exit());
