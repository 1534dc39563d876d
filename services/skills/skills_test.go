package skills_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/services/skills"
	"agent9/store"
	"agent9/store/mem"
)

const review = "---\nname: review\ndescription: How we review.\n---\nRead it all.\n"

func TestSkills(t *testing.T) {
	ctx := fsys.WithCaller(t.Context(), "alice")
	var events []string
	s, err := skills.Open(ctx, mem.New(), func(_ store.Store, event string, detail any) error {
		b, err := json.Marshal(detail)
		events = append(events, event+" "+string(b))
		return err
	})
	require.NoError(t, err)
	write := func(name, text string) {
		t.Helper()
		_, h, err := fsys.OpenCreate(ctx, s.Root(), name, 0o644, fsys.Write|fsys.Trunc)
		require.NoError(t, err)
		for i := range len(text) {
			_, err = fsys.WriteAt(t.Context(), h, []byte{text[i]}, int64(i))
			require.NoError(t, err)
		}
		require.NoError(t, fsys.Finish(t.Context(), h))
	}
	write("review.md", review)
	write("draft.md", "Read it all.\n")
	write("notes.txt", "beside\n")
	_, err = fsys.Mkdir(ctx, s.Root(), "lib", 0o755)
	require.NoError(t, err)

	given := func() (names []string) {
		all, err := s.Files(ctx)
		require.NoError(t, err)
		for _, f := range all {
			names = append(names, f.Name)
		}
		return names
	}
	require.Equal(t, []string{"notes.txt", "review.md"}, given())
	require.NoError(t, fsys.Rename(ctx, s.Root(), "notes.txt", "notes.md"))
	require.NoError(t, fsys.Rename(ctx, s.Root(), "draft.md", "draft.txt"))
	require.Equal(t, []string{"draft.txt", "review.md"}, given())
	require.Equal(t, []string{
		`skill.created {"skill":"review.md","size":0,"by":"alice"}`,
		`skill.changed {"skill":"review.md","size":62,"by":"alice"}`,
		`skill.created {"skill":"draft.md","size":0,"by":"alice"}`,
		`skill.changed {"skill":"draft.md","size":13,"by":"alice"}`,
		`skill.invalid {"skill":"draft.md","reason":"the first line of a skill is ---, and begins its header","by":"alice"}`,
		`skill.created {"skill":"notes.txt","size":0,"by":"alice"}`,
		`skill.changed {"skill":"notes.txt","size":7,"by":"alice"}`,
		`skill.created {"skill":"lib","dir":true,"size":0,"by":"alice"}`,
		`skill.renamed {"skill":"notes.txt","to":"notes.md","size":7,"by":"alice"}`,
		`skill.invalid {"skill":"notes.md","reason":"the first line of a skill is ---, and begins its header","by":"alice"}`,
		`skill.renamed {"skill":"draft.md","to":"draft.txt","size":13,"by":"alice"}`,
	}, events)
	require.NoError(t, fstest.CheckTree(ctx, s.Root(), "review.md"))
}

func TestHeader(t *testing.T) {
	for text, want := range map[string]string{
		"":                                              "the skill is empty",
		"# Review\n":                                    "the first line of a skill is ---, and begins its header",
		"---\nname: a\n":                                "the header has no end: a line ---",
		"---\nname: a\n---\n":                           "the header has no description",
		"---\ndescription: a\n---\n":                    "the header has no name",
		"---\nname a\n---\n":                            "line 2 of the header is not of the form key: value",
		"---\n  name: a\n---\n":                         "line 2 of the header goes on with nothing",
		"---\nname: \"\"\ndescription: b\n---\n":        "the header has no name",
		"---\nname: a\ndescription: \xff\n---\n":        "a skill is UTF-8 text",
		"---\nname: a\ndescription: b: c\n---":          "a|b: c",
		"---\r\nname: 'a b'\r\ndescription: b\r\n---":   "a b|b",
		"---\nname: a\ndescription: >\n  b\n\n  c\n---": "a|b c",
		"---\n# x\nname: a\ntools:\n  - x\ndescription: b\n---\nname: z": "a|b",
	} {
		h, err := skills.ParseHeader([]byte(text))
		got := h.Name + "|" + h.Description
		if err != nil {
			require.Equal(t, fsys.Invalid, fsys.CodeOf(err))
			got = fsys.ReasonOf(err)
		}
		require.Equal(t, want, got, "%q", text)
	}
}
