package main

import "strings"

// guesses are what the words that somebody may try mean here.
var guesses = guessed(map[string]string{
	"create AGENT": "add new init spawn mkagent agent register",
	"delete AGENT": "del destroy remove kill purge uninstall rmdir",
	"list":         "agents ps",
	"info AGENT":   "show get describe inspect view",
	"config AGENT": "set settings configure options program skills skill tools tool",
	"put agents/AGENT/secrets/NAME, which sets one": "secrets secret",
	"goals AGENT":            "todo todos task tasks plan",
	"hibernate AGENT":        "sleep suspend",
	"start AGENT":            "resume unpause",
	"wake AGENT":             "restart retry",
	"stop AGENT":             "pause halt disable",
	"send AGENT TEXT":        "message messages msg mail post inbox notify tell outbox",
	"untake AGENT ID":        "undo requeue nack",
	"ask AGENT TEXT":         "prompt query question model models compute complete job jobs",
	"chat AGENT":             "talk session sessions conversation",
	"tick AGENT":             "trigger fire once",
	"alarm AGENT WHEN TEXT":  "cron schedule timer remind at every",
	"run AGENT COMMAND":      "exec execute sandbox sandboxes container containers docker",
	"shell AGENT":            "sh bash ssh console terminal login attach connect enter",
	"events":                 "tail follow watch history",
	"logs AGENT":             "errors trace journal",
	"logs AGENT --errors":    "why error",
	"budget AGENT":           "money cost costs price spend spending usage limit limits ledger account accounts bill",
	"approve":                "approval approvals accept agree pending allow",
	"deny AGENT ID":          "reject refuse decline",
	"top":                    "monitor stats dashboard htop",
	"token AGENT":            "tokens key keys auth grant apikey",
	"export AGENT":           "dump pack save bundle bundles",
	"import FILE":            "restore load unpack clone",
	"check":                  "fsck doctor verify lint test",
	"cat PATH":               "read print less open stream",
	"put PATH":               "write echo tee ctl",
	"ls PATH":                "tree dir find files",
	"cp FROM TO":             "copy mv move rename download upload scp",
	"rm PATH":                "unlink erase",
	"create AGENT --profile": "profile profiles template templates",
	"agentd, the daemon":     "daemon serve server up http web",
	"echo shutdown | agentctl put ctl, which ends the daemon": "shutdown down quit exit poweroff",
	"agentctl --version": "version",
})

func guessed(words map[string]string) map[string]string {
	all := map[string]string{}
	for command, list := range words {
		for word := range strings.FieldsSeq(list) {
			all[word] = command
		}
	}
	return all
}
