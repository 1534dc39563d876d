package profiles_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/services/profiles"
	"agent9/store/mem"
)

func file(path, text string) profiles.File { return profiles.File{Path: path, Data: []byte(text)} }

func TestRender(t *testing.T) {
	all := []profiles.File{
		file("README", "{{NOT_NEEDED}}"), file(".git/config", "{{NOR_THIS}}"),
		file("config", `{"accept":["{{PEER}}"],"inbox":{"limit":{{LIMIT}}}}`),
		file("goals/ship", "{{NAME}} of {{PEER}}, {{ jinja }}, {{lower}}, {{{{PEER}}}}"),
	}
	made, err := profiles.Render(all, "alice", map[string]string{"PEER": "\"b\\ob\"\n", "LIMIT": "5"})
	require.NoError(t, err)
	require.Equal(t, []profiles.File{
		file("config", `{"accept":["\"b\\ob\"\n"],"inbox":{"limit":5}}`),
		file("goals/ship", "alice of \"b\\ob\"\n, {{ jinja }}, {{lower}}, {{\"b\\ob\"\n}}"),
	}, made)

	_, err = profiles.Render(all, "alice", nil)
	require.Equal(t, "config needs {{PEER}}, config needs {{LIMIT}}, goals/ship needs {{PEER}}, which is not set", fsys.ReasonOf(err))
	_, err = profiles.Render(all, "alice", map[string]string{"PEER": "", "LIMIT": "1", "MODEL": "m"})
	require.Equal(t, "the variable MODEL is set, and no file has {{MODEL}}", fsys.ReasonOf(err))
	_, err = profiles.Render(all, "alice", map[string]string{"NAME": "eve"})
	require.Equal(t, "the variable NAME is the agent's name, and cannot be set", fsys.ReasonOf(err))
}

func TestParse(t *testing.T) {
	set, err := profiles.ParseSet([]string{"A=1=2", "B_2="})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"A": "1=2", "B_2": ""}, set)
	for _, words := range [][]string{{"a=1"}, {"A"}, {"A=1", "A=2"}, {"2A=1"}, {"A}}{{B=1"}} {
		_, err := profiles.ParseSet(words)
		require.Equal(t, fsys.Invalid, fsys.CodeOf(err), "%q", words)
	}
	for _, doc := range []string{`{"nam":"a"}`, `{"name":"a","profile":"p","files":{}}`, `{"name":"a","set":{"a":"b"}}`, `{"name":"a","files":{"../x":""}}`, `{"name":"a","files":{"/x":""}}`} {
		_, err := profiles.ParseRequest([]byte(doc))
		require.Equal(t, fsys.Invalid, fsys.CodeOf(err), doc)
	}
}

func TestFiles(t *testing.T) {
	ctx := t.Context()
	p, err := profiles.Open(ctx, mem.New())
	require.NoError(t, err)
	_, err = p.Files(ctx, "web")
	require.Equal(t, "there is no profile web; mkdir profiles/web makes one", fsys.ReasonOf(err))
	for _, dir := range []string{"web", "webx"} {
		d, err := fsys.Mkdir(ctx, p.Root(), dir, 0o755)
		require.NoError(t, err)
		_, h, err := fsys.Create(ctx, d, "config", 0o644, fsys.Write)
		require.NoError(t, err)
		_, err = fsys.WriteAt(ctx, h, []byte(dir), 0)
		require.NoError(t, err)
		require.NoError(t, fsys.Finish(ctx, h))
	}
	got, err := p.Files(ctx, "web")
	require.NoError(t, err)
	require.Equal(t, []profiles.File{file("config", "web")}, got)
}
